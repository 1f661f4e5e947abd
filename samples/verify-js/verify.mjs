// Verifies a hushdoc artifact: node verify.mjs ARTIFACT --trust trust.json --policy policy.json
// Written from docs/certificate-spec.md. What it does not understand, it refuses.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

class Refusal extends Error { constructor(code, found) { super(found); this.code = code; } }
const need = (holds, code, found) => { if (!holds) throw new Refusal(code, found); };
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// ---- Strict JSON: one text has one reading. JSON.parse would take the last of two equal keys.
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
    if (/^[-0-9]/.test(token)) {
      const isZero = !/[1-9]/.test(token.split(/e/i)[0]);
      need(Number.isFinite(Number(token)) && isZero === !Number(token), code, token);
    }
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

/** Refuses a value that is not of the type; every key of a record must be there and no other. */
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
    const keys = Object.keys(rule);
    expect(('0' in rule ? Array.isArray : isObject)(value));
    expect(keys.sort().join() === Object.keys(value).sort().join());
    keys.forEach((key) => check(value[key], rule[key], `${where}.${key}`));
  } else if (type !== 'any') {
    need(rule && !isObject(value), 'UNKNOWN_VALUE', `${where}: expected ${type}`);
    expect(RegExp(`^(?:${rule})$`, 'u').test(`${typeof value} ${value}`));
  }
}

/** Refuses fields that contradict one another. */
function checkSense({ guarantees, transcripts, protectedData, dataAccesses, audits, ...rest }) {
  const expect = (holds, found) => need(holds, 'BAD_FIELD', found);
  const isThere = (name) => name === null || Object.hasOwn(transcripts, name);
  expect(guarantees.length > 0 && guarantees.length <= 64, 'the number of guarantees');
  expect(rest.expiresAt === null || rest.expiresAt > rest.issuedAt, 'expiresAt');
  for (const { kind, epsilon, delta, profile, ...item } of guarantees) {
    const hasNumbers = epsilon !== null && delta !== null;
    const isEmpty = epsilon === null && delta === null && profile.length === 0;
    expect({ dp: hasNumbers, 'dp-conditional': hasNumbers, none: isEmpty }[kind] ?? true, kind);
    expect((item.reason !== null) === (kind === 'none'), 'a reason');
    expect((item.condition !== null) === (kind === 'dp-conditional'), 'a condition');
    expect(item.aggregation !== 'central' || !WATCHERS.includes(item.adversary), 'aggregation');
    expect(profile.length <= 32 && isThere(item.transcript), 'a profile or transcript');
  }
  for (const { data, accountedIn, treatment } of dataAccesses) {
    expect((accountedIn !== null) === (treatment === 'accounted'), 'a treatment');
    expect(isThere(accountedIn) && protectedData.some(({ name }) => name === data), 'an access');
  }
}
