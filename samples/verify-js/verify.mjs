// Verifies a hushdoc artifact: node verify.mjs ARTIFACT --trust trust.json --policy policy.json
// Written from docs/certificate-spec.md. What it does not understand, it refuses.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';

class Refusal extends Error { constructor(code, found) { super(found); this.code = code; } }
const need = (holds, code, found) => { if (!holds) throw new Refusal(code, found); };
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// ---- Strict JSON: one text has one reading. JSON.parse alone takes the last of two equal keys.
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}[\]]|-?[0-9][0-9.eE+-]*/gs;

function parseStrict(bytes, code = 'BAD_STATEMENT', mostBytes = 256 * 1024) {
  need(bytes.length <= mostBytes, 'CERT_TOO_LARGE', `${bytes.length} bytes`);
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  let depth = 0, keys = 0;
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (colon) keys += 1;
    if (token === '{' || token === '[') need(++depth <= 32, code, 'more than 32 levels');
    if (token === '}' || token === ']') depth -= 1;
    if (/^-?[0-9]+$/.test(token)) need(Number.isSafeInteger(Number(token)), code, token);
    if (!/^[-0-9]/.test(token)) continue;
    const isZero = !/[1-9]/.test(token.split(/e/i)[0]); // 1e-400 is not
    need(Number.isFinite(Number(token)) && isZero === !Number(token), code, token);
  }
  const found = JSON.parse(text, (key, value) => {
    if (isObject(value)) keys -= Object.keys(value).length;
    need([key, value].every((item) => `${item}`.isWellFormed()), code, 'half a letter');
    return value;
  });
  need(keys === 0, code, 'a key stands twice in one object');
  return found;
}

// ---- Fields, as schema.json spells them: ? or null, * a list of, % an object of free keys.
const SCHEMA = JSON.parse(readFileSync(new URL('schema.json', import.meta.url)));

function check(value, type, where) {
  const expect = (holds) => need(holds, 'BAD_FIELD', `${where}: expected ${type}`);
  const inner = type.slice(0, -1), rule = SCHEMA[type === 'event' ? `event ${value?.type}` : type];
  if (type.endsWith('?')) {
    if (value !== null) check(value, inner, where);
  } else if (type.endsWith('*')) {
    expect(Array.isArray(value) && value.length <= 1000);
    value.forEach((item, index) => check(item, inner, `${where}[${index}]`));
  } else if (type.endsWith('%')) {
    expect(isObject(value) && Object.keys(value).length <= 1000);
    Object.entries(value).forEach(([key, item]) => check(item, inner, `${where}.${key}`));
  } else if (isObject(rule)) {
    const keys = Object.keys(rule).sort();
    expect(('0' in rule ? Array.isArray : isObject)(value));
    expect(keys.join() === Object.keys(value).sort().join()); // every key, and no other
    keys.forEach((key) => check(value[key], rule[key], `${where}.${key}`));
  } else if (type !== 'any') {
    expect(rule && !isObject(value));
    need(RegExp(`^(${rule})$`, 'u').test(`${typeof value} ${value}`), 'UNKNOWN_VALUE', where);
  }
}

// ---- Signatures: DSSE v1. Algorithm, models and roles of a key come from the trust store alone.
const PRIME = 2n ** 255n - 19n;
const ORDER_EIGHT = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
const SMALL_ORDER = [0n, 1n, PRIME - 1n, ORDER_EIGHT, PRIME - ORDER_EIGHT];
const ED25519_HEAD = '302a300506032b6570032100'; // the DER of a key before its raw bytes
const P256_HEAD = '3059301306072a8648ce3d020106082a8648ce3d030107034200';

function decodeBase64(value, code) {
  const bytes = Buffer.from(value, 'base64');
  need(bytes.toString('base64') === value, code, 'not strict base64');
  return bytes;
}

function readKeys(bytes) {
  const store = parseStrict(bytes, 'BAD_TRUST_STORE');
  check(store, 'trust store', 'the trust store');
  return store.keys.map((key) => {
    const raw = decodeBase64(key.publicKey, 'BAD_TRUST_STORE');
    const twins = store.keys.filter(({ keyid }) => keyid === sha256(raw));
    need(twins.length === 1 && twins[0] === key, 'BAD_TRUST_STORE', `key id of ${key.name}`);
    const y = BigInt(`0x${Buffer.from(raw).reverse().toString('hex')}`) % 2n ** 255n;
    const isEdwards = key.algorithm === 'ed25519';
    need(isEdwards ? raw.length === 32 && y < PRIME && !SMALL_ORDER.includes(y)
      : raw.length === 65 && raw[0] === 4, 'WEAK_KEY', key.name);
    const der = Buffer.concat([Buffer.from(isEdwards ? ED25519_HEAD : P256_HEAD, 'hex'), raw]);
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' });
    return { ...key, holds: (message, signature) =>
      verify(isEdwards ? null : 'sha256', message, publicKey, signature) };
  });
}

function openEnvelope(line, keys) {
  const type = 'application/vnd.in-toto+json';
  const envelope = parseStrict(line, 'BAD_ENVELOPE', 512 * 1024);
  check(envelope.signatures, 'signature*', 'signatures');
  need(envelope.payloadType === type && envelope.signatures.length <= 16, 'BAD_ENVELOPE', type);
  const payload = decodeBase64(envelope.payload, 'BAD_ENVELOPE');
  const message = Buffer.concat([Buffer.from(`DSSEv1 28 ${type} ${payload.length} `), payload]);
  const made = envelope.signatures.map((item) => [item.keyid, decodeBase64(item.sig, 'BAD_ENVELOPE')]);
  return { payload, signers: keys.filter((key) =>
    made.some(([keyid, signature]) => keyid === key.keyid && key.holds(message, signature))) };
}

// ---- Recomputing: Renyi divergences of whole orders here, exact.mjs for tighter promises.
const ORDERS = [...Array(127).keys()].map((index) => index + 2).concat(192, 256, 512, 1024);

function renyi(event, order) {
  const parts = (event.events ?? [event.event ?? []].flat()).map((part) => renyi(part, order));
  if (event.type === 'gaussian') return order / (2 * event.noiseMultiplier ** 2);
  if (event.type === 'composed') return event.count === 0 ? 0 : event.count * parts[0];
  if (event.type === 'sequence') return parts.reduce((sum, part) => sum + part, 0);
  if (event.type !== 'poisson-sampled' || event.event.type !== 'gaussian') return Infinity;
  const { samplingRate: rate, event: { noiseMultiplier: noise } } = event;
  let choices = 1, sum = 0;
  for (let k = 0; k <= order; k++) {
    sum += choices * rate ** k * (1 - rate) ** (order - k) * Math.exp((k * k - k) / 2 / noise ** 2);
    choices *= (order - k) / (k + 1);
  }
  return Number.isFinite(sum) ? (Math.log(sum) + 1e-13) / (order - 1) : Infinity;
}

async function isReproduced(guarantee, transcripts) {
  const { epsilon, delta, profile, adjacency, accountant, transcript } = guarantee;
  const points = [[epsilon, delta], ...profile], event = transcripts[transcript];
  if (!event || !CERTIFYING.includes(accountant.name) || adjacency !== 'add-remove') return false;
  const isFalling = points.every(([e, d]) => points.every(([f, c]) => d > c || e >= f));
  const spent = ORDERS.map((order) => renyi(event, order));
  const isProven = ([e, d]) => ORDERS.some((order, index) => e >= spent[index]
    + Math.log1p(-1 / order) - Math.log(d * order) / (order - 1));
  const open = points.filter((point) => !isProven(point));
  return isFalling && (!open.length || (await import('./exact.mjs')).isProven(event, open));
}

// ---- The rules: what is not stated is denied.
const WATCHERS = ['server', 'co-client', 'network-observer'];
const SEEN_BY = { 'api-user': ['model-recipient', ...WATCHERS], 'model-recipient': WATCHERS };

async function failures({ guarantees, transcripts, dataAccesses, protectedData, ...rest }, policy) {
  const against = guarantees.filter((item) => item.adversary === policy.adversary);
  const judged = against.filter((item) => policy.privacy_units.includes(item.unit));
  const promises = guarantees.filter((item) => item.kind.startsWith('dp'));
  const reproduced = await Promise.all(promises.map((item) => isReproduced(item, transcripts)));
  const read = dataAccesses.map((access) => access.data);
  return [
    ['ASSURANCE_TOO_LOW', ASSURANCES.indexOf(rest.assurance) >= ASSURANCES.indexOf(policy.min_assurance)],
    ['NO_GUARANTEE_FOR_ADVERSARY', against.length > 0],
    ['UNIT_NOT_ACCEPTED', judged.length > 0],
    ...judged.flatMap((item) => rulesOfOne(item, ...)),
    ['UNACCOUNTED_ACCESS', protectedData.length > 0 && protectedData.every(({ name }) => read.includes(name))],
    ['UNACCOUNTED_ACCESS', rest.derivation.every((step) => step.dataDependent === false)],
    ['PUBLIC_DATA_OVERLAP', rest.publicData.every((data) => policy.public_overlap.includes(data.overlapWithProtected))],
    ['EPSILON_NOT_REPRODUCED', reproduced.every(Boolean)],
  ].filter(([, holds]) => !holds).map(([code]) => code);
}
