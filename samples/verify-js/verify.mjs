// Verifies a hushdoc artifact: node verify.mjs ARTIFACT --trust trust.json --policy policy.json
// Written from docs/certificate-spec.md. What it does not understand, it refuses.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

class Refusal extends Error { constructor(code, found) { super(found); this.code = code; } }
const need = (holds, code, found) => { if (!holds) throw new Refusal(code, found); };
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// ---- Strict JSON: one text has one reading. Whole numbers become BigInt: 3 and 3.0 stay apart.
const STRING = '"[^"\\\\\\0-\\x1f]*(?:\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\\\\0-\\x1f]*)*"';
const NUMBER = '-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?';
const TOKEN = new RegExp(`[ \\t\\n\\r]*(${STRING}|${NUMBER}|true|false|null|[{}[\\],:]|$)`, 'y');

export function parseStrict(bytes, code = 'BAD_STATEMENT', mostBytes = 256 * 1024) {
  need(bytes.length <= mostBytes, 'CERT_TOO_LARGE', `${bytes.length} bytes of JSON`);
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  const expect = (holds) => need(holds, code, `not strict JSON at letter ${TOKEN.lastIndex}`);
  const next = () => {
    const found = TOKEN.exec(text);
    expect(found);
    return found[1];
  };
  const scalar = (token) => {
    expect(/^["\-0-9tfn]/.test(token));
    const value = JSON.parse(token), isWhole = /^[-0-9]+$/.test(token);
    if (typeof value === 'string') expect(value.isWellFormed());
    if (typeof value !== 'number') return value;
    expect(isWhole ? Number.isSafeInteger(value) : Number.isFinite(value));
    expect(value !== 0 || !/[1-9]/.test(token.split(/e/i)[0]));  // not 1e-400
    return isWhole ? BigInt(token) : value;
  };
  const value = (token, depth) => {
    if (token !== '{' && token !== '[') return scalar(token);
    expect(depth < 32);
    const isList = token === '[', close = isList ? ']' : '}';
    const found = isList ? [] : Object.create(null);
    for (token = next(); token !== close;) {
      const key = isList ? found.length : scalar(token);
      expect(isList || (typeof key === 'string' && !(key in found) && next() === ':'));
      found[key] = value(isList ? token : next(), depth + 1);
      token = next();
      expect(token === close || token === ',');
      if (token === ',') expect((token = next()) !== close);
    }
    return found;
  };
  TOKEN.lastIndex = 0;
  const found = value(next(), 0);
  expect(next() === '');
  return found;
}

// ---- Fields, as schema.json spells them: ? is "or null", * a list of, % an object of.
const SCHEMA = JSON.parse(readFileSync(new URL('schema.json', import.meta.url)));
const isNumber = (value, most) => /^(bigint|number)$/.test(typeof value) && value >= 0 && value <= most;
const KINDS = {
  text: (value) => typeof value === 'string' && value !== '' && [...value].length <= 4000,
  flag: (value) => typeof value === 'boolean',
  whole: (value) => typeof value === 'bigint' && value >= 0n,
  positive: (value) => typeof value === 'bigint' && value >= 1n,
  number: (value) => isNumber(value, Infinity),
  share: (value) => isNumber(value, 1),
  time: (value) => new Date(value).toISOString() === `${value}`.replace('Z', '.000Z'),
  any: () => true,
};

/** Refuses a value that is not of the type; every key of a record must be there and no other. */
function check(value, type, where) {
  const expect = (holds, code = 'BAD_FIELD') => need(holds, code, `${where}: expected ${type}`);
  const inner = type.slice(0, -1), event = type === 'event' ? `event ${value?.type}` : type;
  if (type.endsWith('?')) {
    if (value !== null) check(value, inner, where);
  } else if (type.endsWith('*')) {
    expect(Array.isArray(value) && value.length <= 1000);
    value.forEach((item, index) => check(item, inner, `${where}[${index}]`));
  } else if (type.endsWith('%')) {
    expect(isObject(value) && Object.keys(value).length <= 1000);
    Object.entries(value).forEach(([key, item]) => check(item, inner, `${where}.${key}`));
  } else if (type in KINDS) {
    expect(KINDS[type](value));
  } else if (Array.isArray(SCHEMA[type])) {
    expect(SCHEMA[type].includes(value), typeof value === 'string' ? 'UNKNOWN_VALUE' : 'BAD_FIELD');
  } else if (typeof SCHEMA[type] === 'string') {
    expect(typeof value === 'string' && new RegExp(`^${SCHEMA[type]}$`).test(value));
  } else {
    const fields = SCHEMA[event];
    expect(isObject(fields), 'UNKNOWN_VALUE');
    expect(isObject(value) && Object.keys(value).sort().join() === Object.keys(fields).sort().join());
    Object.entries(fields).forEach(([key, kind]) => check(value[key], kind, `${where}.${key}`));
  }
}

// ---- Signatures: DSSE v1. Algorithm, models and roles of a key come from the trust store alone.
const PRIME = 2n ** 255n - 19n;
const ORDER_EIGHT = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
const SMALL_ORDER = [0n, 1n, PRIME - 1n, ORDER_EIGHT, PRIME - ORDER_EIGHT];

function decodeBase64(value, code) {
  const bytes = Buffer.from(value, 'base64');
  need(bytes.toString('base64') === value, code, 'not strict base64');
  return bytes;
}

export function readTrust(bytes) {
  const store = parseStrict(bytes, 'BAD_TRUST_STORE');
  check(store, 'store', 'trust');
  need(new Set(store.keys.map((key) => key.keyid)).size === store.keys.length, 'BAD_TRUST_STORE');
  for (const key of store.keys) {
    const raw = decodeBase64(key.publicKey, 'BAD_TRUST_STORE');
    need(sha256(raw) === key.keyid, 'BAD_TRUST_STORE', `keyid of ${key.name}`);
    const coordinate = (from, to) => raw.subarray(from, to).toString('base64url');
    let jwk = { kty: 'OKP', crv: 'Ed25519', x: coordinate(0, 32) };
    if (key.algorithm === 'ed25519') {
      const y = BigInt(`0x0${Buffer.from(raw).reverse().toString('hex')}`) % 2n ** 255n;
      need(raw.length === 32 && y < PRIME && !SMALL_ORDER.includes(y), 'WEAK_KEY', key.name);
    } else {
      need(raw.length === 65 && raw[0] === 4, 'WEAK_KEY', key.name);
      jwk = { kty: 'EC', crv: 'P-256', x: coordinate(1, 33), y: coordinate(33, 65) };
    }
    key.object = createPublicKey({ key: jwk, format: 'jwk' });
  }
  return store.keys;
}

/** Returns the payload of an envelope and those of the keys that signed it. */
function openEnvelope(line, keys) {
  const envelope = parseStrict(line, 'BAD_ENVELOPE', 512 * 1024);
  const type = 'application/vnd.in-toto+json';
  check(envelope?.signatures, 'signature*', 'signatures')
  need(envelope.payloadType === type && ..., 'BAD_ENVELOPE', ...);
  const payload = decodeBase64(envelope.payload, 'BAD_ENVELOPE');
  const message = Buffer.concat([Buffer.from(`DSSEv1 28 ${type} ${payload.length} `), payload]);
  const signatures = envelope.signatures.map(({ keyid, sig }) => [keyid, decodeBase64(sig)]);
  const signed = (key) => signatures.some(([keyid, signature]) =>
    (!keyid || keyid === key.keyid) && verify(key.algorithm..., message, key.object, signature));
  return { payload, signers: keys.filter(signed) };
}
