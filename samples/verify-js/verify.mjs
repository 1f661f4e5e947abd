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

// ---- Signatures: DSSE v1. Algorithm, models and roles of a key come from the trust store alone.
const PRIME = 2n ** 255n - 19n;
const ORDER_EIGHT = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
const SMALL_ORDER = [0n, 1n, PRIME - 1n, ORDER_EIGHT, PRIME - ORDER_EIGHT];

function decodeBase64(value, code) {
  const bytes = Buffer.from(value, 'base64');
  need(bytes.toString('base64') === value, code, 'not strict base64');
  return bytes;
}

/** Returns the keys of a trust store; one under which anything verifies refuses the store. */
function readKeys(bytes) {
  const store = parseStrict(bytes, 'BAD_TRUST_STORE');
  check(store, 'trust store', 'trust store');
  const ids = new Set(store.keys.map(({ keyid }) => keyid));
  need(ids.size === store.keys.length, 'BAD_TRUST_STORE', 'a key stands twice');
  return store.keys.map(({ keyid, algorithm, publicKey, name, models, roles }) => {
    const raw = decodeBase64(publicKey, 'BAD_TRUST_STORE'), isEdwards = algorithm === 'ed25519';
    need(sha256(raw) === keyid, 'BAD_TRUST_STORE', `the key id of ${name}`);
    const y = BigInt(`0x${Buffer.from(raw).reverse().toString('hex')}`) % 2n ** 255n;
    const isSound = isEdwards ? raw.length === 32 && y < PRIME && !SMALL_ORDER.includes(y)
      : raw.length === 65 && raw[0] === 4;
    need(isSound, 'WEAK_KEY', name);
    const [x, p256X, p256Y] = [raw, raw.subarray(1, 33), raw.subarray(33)]
      .map((part) => part.toString('base64url'));
    const key = isEdwards ? { kty: 'OKP', crv: 'Ed25519', x }
      : { kty: 'EC', crv: 'P-256', x: p256X, y: p256Y };
    const object = createPublicKey({ key, format: 'jwk' });
    const holds = (made, message) => verify(isEdwards ? null : 'sha256', message, object, made);
    return { keyid, models, roles, holds };
  });
}

/** Returns the payload of an envelope and which of the keys signed it. */
function openEnvelope(line, keys) {
  const type = 'application/vnd.in-toto+json', code = 'BAD_ENVELOPE';
  const { payloadType, payload: encoded, signatures } = parseStrict(line, code, 512 * 1024);
  need(payloadType === type && signatures.length <= 16, code, 'payload type or signatures');
  const payload = decodeBase64(encoded, code);
  const message = Buffer.concat([Buffer.from(`DSSEv1 28 ${type} ${payload.length} `), payload]);
  const made = signatures.map(({ keyid, sig }) => ({ keyid, bytes: decodeBase64(sig, code) }));
  const signed = (key) => made.some(({ keyid, bytes }) =>
    keyid === key.keyid && key.holds(bytes, message));
  return { payload, signers: keys.filter(signed) };
}

// ---- Recomputing epsilon: Renyi accounting of whole orders (specification, section 8).
const ORDERS = [...Array(126).keys()].map((index) => index + 2).concat(192, 256, 512, 1024);

/** Returns the Renyi divergence of one order that an event spends; Infinity if it isn't known. */
function renyi(event, order) {
  const parts = (event.events ?? [event.event]).filter(Boolean).map((part) => renyi(part, order));
  switch (event.type) {
    case 'gaussian': return order / (2 * event.noiseMultiplier ** 2);
    case 'composed': return event.count && event.count * parts[0];
    case 'sequence': return parts.reduce((sum, part) => sum + part, 0);
    case 'parallel': return Math.max(0, ...parts);
    case 'poisson-sampled': {
      const { samplingRate: rate, event: { type, noiseMultiplier: noise } } = event;
      if (type !== 'gaussian' || rate === 0 || rate === 1) return parts[0];
      let chosen = 0; // the logarithm of "order choose k"
      const terms = [...Array(order + 1).keys()].map((k) => {
        chosen += k && Math.log((order - k + 1) / k);
        return chosen + k * Math.log(rate) + (order - k) * Math.log1p(-rate)
          + (k * k - k) / (2 * noise ** 2);
      });
      const most = Math.max(...terms);
      const sum = terms.reduce((total, term) => total + Math.exp(term - most), 0);
      return (most + Math.log(sum) + 1e-13) / (order - 1);
    }
    default: return Infinity;
  }
}

/** Returns whether a promise follows from its transcript; each of its points must. */
async function isReproduced({ epsilon, delta, profile, adjacency, accountant, transcript }, all) {
  const event = all[transcript], points = [[epsilon, delta], ...profile];
  const isKnown = event && CERTIFYING.includes(accountant.name)
    && ['add-remove', 'zero-out'].includes(adjacency);
  const falls = points.every(([e, d]) => points.every(([f, c]) => (d < c ? e >= f : e <= f || d > c)));
  const spent = ORDERS.map((order) => renyi(event, order)) ...
  const open = points.filter(([e, d]) => !ORDERS.some((order, i) => spent[i] + Math.log(1-1/order) - Math.log(d*order)/(order - 1)) <= e))
  return open.length === 0 || (await import('./exact.mjs')).holds(event, open)
}
