// node --test: the example certificates, strict JSON, and the arithmetic against known answers.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { isReproduced } from './exact.mjs';
import { parse, read } from './certificate.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const EXAMPLES = here('../certificates/');
const expected = JSON.parse(readFileSync(`${EXAMPLES}expected.json`, 'utf8'));

function verifyExample(name, now = '2026-12-01T00:00:00Z', more = []) {
  const done = spawnSync(process.execPath, [
    here('verify.mjs'), `${EXAMPLES}${name}`, '--now', now, ...more,
    '--trust', `${EXAMPLES}trust.json`, '--policy', `${EXAMPLES}policy.json`,
  ], { encoding: 'utf8' });
  return { code: done.status, text: done.stdout };
}

for (const [name, { accepted, codes }] of Object.entries(expected)) {
  test(`the example ${name} is ${accepted ? 'accepted' : 'refused, for the same reasons'}`, () => {
    const { code, text } = verifyExample(name, undefined, ['--exact', here('exact.mjs')]);
    assert.equal(code, accepted ? 0 : 1, text);
    assert.match(text, accepted ? /^ACCEPTED: / : /^REFUSED: /);
    assert.deepEqual(accepted ? [] : text.split(': ')[1].split(' '), codes);
    // Without the second engine what only that can prove is refused too, and no more is accepted.
    const without = verifyExample(name).text, said = without.split(': ')[1];
    const known = said.split(' ').filter((item) => item !== 'EPSILON_NOT_REPRODUCED');
    if (said.includes('EPSILON_NOT_REPRODUCED')) assert.deepEqual(known, codes);
    else assert.equal(without, text);
  });
}

test('nothing is accepted before it was issued, nor by a clock that is wrong', () => {
  assert.match(verifyExample('fl-provider-dp', '2026-11-02T00:00:00Z').text, /NOT_YET_VALID/);
  assert.match(verifyExample('fl-provider-dp', '1970-01-01T00:00:00Z').text, /CLOCK_IMPLAUSIBLE/);
  assert.equal(verifyExample('fl-provider-dp', 'yesterday').code, 1);
});

test('what can not be read is refused', () => {
  const done = spawnSync(process.execPath, [here('verify.mjs')], { encoding: 'utf8' });
  assert.equal(done.status, 1);
  assert.match(done.stdout, /^REFUSED: /);
  assert.match(verifyExample('no-such-example').text, /^REFUSED: ENOENT/);
});

test('strict JSON has one reading', () => {
  const value = (text) => parse(Buffer.from(text));
  assert.deepEqual(value(' {"a": [1, 2.5, "\\u00e9", null, true]} \n'),
    { a: [1n, 2.5, 'é', null, true] });
  assert.equal(value('3.0'), 3);
  assert.equal(value('3'), 3n);
  assert.deepEqual(value('{"at": 1, "toString": 2, "length": 3}'),
    { at: 1n, toString: 2n, length: 3n });
  for (const text of [
    '', ' ', '{', '[1,]', '{"a":1,}', '[1 2]', '{"a":1 "b":2}', '{a:1}', "{'a':1}", '{1:2}', '01',
    '+1', '.5', '1.', '1e', '--1', 'NaN', 'Infinity', '-Infinity', 'nul', 'truee', '1 2', '[]]',
    '{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '{"__proto__":1,"__proto__":2}', '1e400', '-1e400',
    '1e-400', '9007199254740992', '-9007199254740992', '"\\ud800"', '{"\\udc00":1}', '"\t"',
    '"\\x"', '"a', '/**/1', '\ufeff1', '\u00a01', '"\\u00001"', '{"\\u0000":1}',
  ]) {
    assert.throws(() => value(text), (problem) => problem instanceof Error, text);
  }
  assert.throws(() => parse(Buffer.from([0x22, 0xff, 0x22])), { code: 'BAD_JSON' });
  assert.throws(() => parse(Buffer.alloc(2 ** 18 + 1, 0x20)), { code: 'CERT_TOO_LARGE' });
});

test('base64 has one encoding, however long', () => {
  const long = Buffer.alloc(380_000, 'hushdoc').toString('base64');
  for (const text of ['', 'aGk=', 'aGkh', 'aGlo', 'AA==', long]) {
    assert.equal(read(text, 'base64'), text);
  }
  for (const text of [
    'aGk', 'aGl=', 'aGk= ', 'a-k=', '=', 'aGk=\n', 'AB==', null, 7n, [''], `${long}=`,
  ]) {
    assert.throws(() => read(text, 'base64'), { code: 'BAD_FIELD' });
  }
});

test('a signed file has a name that is safe everywhere', () => {
  for (const name of ['a', 'a/b.c/d-e/f_g', 'console', 'com', 'x'.repeat(200)]) {
    assert.equal(read(name, 'path'), name);
  }
  for (const name of [
    '', '/a', 'a/', 'a//b', '../a', 'a/../b', 'a.', 'a./b', '.a', 'a/.b', 'a\\b', 'C:a', 'a b',
    'a\n', 'con', 'a/NUL', 'Com1.txt', 'lpt9/a', 'aux.onnx', 'Privacy.Intoto.jsonl', 'a/b/c/d/e',
    'ä', 'x'.repeat(201), '\u212Aelvin', null,
  ]) {
    assert.throws(() => read(name, 'path'), { code: 'BAD_FIELD' }, name);
  }
});

test('a field is of its type, and a record has its keys and no other', () => {
  const unit = (change) => ({ unit: 'page', count: null, countIsPublic: false, ...change });
  read(unit({}), 'protectedUnit');
  assert.deepEqual(read(unit({ count: 3n, countIsPublic: true }), 'protectedUnit'),
    { unit: 'page', count: 3, countIsPublic: true });
  for (const change of [
    { count: 3 }, { count: -1n }, { countIsPublic: 0n }, { more: 1n }, { count: 3n },
    { unit: 'pаge' }, // a Cyrillic letter
  ]) {
    assert.throws(() => read(unit(change), 'protectedUnit'));
  }
  assert.throws(() => read({ 'count,countIsPublic,unit': null }, 'protectedUnit'));
  for (const time of [
    '2026-02-29T00:00:00Z', '2026-11-31T00:00:00Z', '2026-11-21T24:00:00Z', '2026-11-21',
    '2026-11-21T08:00:00.000Z', '', null,
  ]) {
    assert.throws(() => read(time, 'time'), { code: 'BAD_FIELD' });
  }
  read('2028-02-29T23:59:59Z', 'time');
  let event = { type: 'gaussian', noiseMultiplier: 1n };
  for (let level = 1; level < 16; level++) event = { type: 'composed', event, count: 1n };
  read(event, 'event');
  assert.throws(() => read({ type: 'composed', event, count: 1n }, 'event'));
  const nested = (levels) => (levels === 0 ? 1n : [nested(levels - 1)]);
  read(nested(31), 'any');
  assert.throws(() => read(nested(32), 'any'));
});

const gaussian = (noiseMultiplier) => ({ type: 'gaussian', noiseMultiplier });
const poisson = (samplingRate, noise) =>
  ({ type: 'poisson-sampled', samplingRate, event: gaussian(noise) });
const composed = (count, event) => ({ type: 'composed', count, event });
const clusters = (samplingRate, event) => ({ type: 'cluster-sampled', samplingRate, event });
const guarantee = (epsilon, delta, more = {}) => ({
  epsilon, delta, profile: [], adjacency: 'add-remove', accountant: { name: 'pld' }, ...more,
});

// Least epsilons as hushdoc finds them; google/differential-privacy confirms all that it supports,
// which clusters and groups are not.
for (const [name, event, delta, epsilon] of [
  ['one Gaussian', gaussian(1), 1e-5, 4.3772],
  ['windows of forms', composed(350, poisson(1 / 7, 1.5013)), 1 / 389, 7.002],
  ['providers, released', composed(10, clusters(0.2, gaussian(0.771484375))), 1e-5, 14.461],
  ['half of the clients', composed(350, clusters(0.5, poisson(2 / 7, 1.5013))), 1 / 389, 10.979],
  ['eight windows', { type: 'group', size: 8, event: composed(350, poisson(1 / 7, 1.5013)) },
    1 / 389, 167.48],
  ['two releases', { type: 'sequence', events: [gaussian(2), gaussian(2)] }, 1e-5, 2.9432],
]) {
  test(`epsilon of ${name} is proven, and hardly less`, () => {
    assert.equal(isReproduced(guarantee(epsilon * 1.001, delta), event), true);
    assert.equal(isReproduced(guarantee(epsilon * 0.97, delta), event), false);
  });
}

test('many steps are proven at small deltas as hushdoc writes them', async () => {
  let imported = 0; // each has the work of a certificate to itself
  const proves = async (event, epsilon, delta, profile = []) => {
    const exact = await import(`./exact.mjs?${imported++}`);
    return exact.isReproduced(guarantee(epsilon, delta, { profile }), event);
  };
  const event = composed(1000, poisson(0.05, 1.2));
  const runs = { type: 'sequence', events: Array(20).fill(composed(50, poisson(0.05, 1.2))) };
  const profile = [[6.878700440607313, 1e-4], [8.811589495134076, 1e-6],
    [9.663177578122482, 1e-7], [10.461845593340843, 1e-8]];
  assert.equal(await proves(event, 7.891593778732313, 1e-5, profile), true);
  assert.equal(await proves(runs, 7.891593778732313, 1e-5, profile), true);
});

test('what can not be recomputed, or contradicts itself, proves nothing', () => {
  const step = composed(350, poisson(1 / 7, 1.5013));
  assert.equal(isReproduced(guarantee(8, 1e-2), step), true);
  for (const more of [
    { adjacency: 'replace-one' }, { accountant: { name: 'gdp-clt' } }, { profile: [[9, 1e-1]] },
    { profile: [[7.9, 1e-2]] }, { profile: [[8, 1e-9]] }, { delta: 0 },
  ]) {
    assert.equal(isReproduced(guarantee(8, 1e-2, more), step), false);
  }
  for (const event of [
    null, gaussian(0), composed(10 ** 15, poisson(1e-3, 5)), { type: 'hash-fill' },
    { type: 'group', size: 2, event: clusters(0.5, gaussian(9)) },
    clusters(0.5, composed(2, gaussian(9))), composed(1, { type: 'parallel', events: [step] }),
    { type: 'without-replacement', population: 100, sampleSize: 1, event: gaussian(9) },
  ]) {
    assert.equal(isReproduced(guarantee(8, 1e-2), event), false);
  }
  assert.equal(isReproduced(guarantee(8, 1e-2), { type: 'parallel', events: [step, step] }), true);
  const worse = composed(700, poisson(1 / 7, 1.5013));
  assert.equal(
    isReproduced(guarantee(8, 1e-2), { type: 'parallel', events: [step, worse] }), false);
});
