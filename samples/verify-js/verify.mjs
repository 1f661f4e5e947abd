// Verifies a hushdoc artifact: node verify.mjs ARTIFACT --trust trust.json --policy policy.json
// Written from docs/certificate-spec.md. What it does not understand, it refuses.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

class Refusal extends Error { constructor(code, found) { super(found); this.code = code; } }
const need = (holds, code, found) => { if (!holds) throw new Refusal(code, found); };
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// ---- Strict JSON: one text has one reading. Whole numbers become BigInt: 3 and 3.0 stay apart.
const STRING = '"[^"\\\\\\0-\\x1f]*(?:\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\\\\0-\\x1f]*)*"';
const NUMBER = '-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?';
const TOKEN = new RegExp(`[ \\t\\n\\r]*(${STRING}|${NUMBER}|true|false|null|[{}[\\],:]|$)`, 'y');

function parseStrict(bytes, code = 'BAD_STATEMENT', mostBytes = 256 * 1024) {
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
    expect(value !== 0 || !/[1-9]/.test(token.split(/e/i)[0])); // 1e-400 is no zero
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

// ---- Fields, as schema.json spells them: ? or null, * a list of, % an object of free keys.
const SCHEMA = JSON.parse(readFileSync(new URL('schema.json', import.meta.url)));
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isWhole = (value, least) => typeof value === 'bigint' && value >= least;
const isNumber = (value, least, most) => Number(value) >= least && Number(value) <= most
  && ['bigint', 'number'].includes(typeof value);
const KINDS = {
  any: () => true,
  text: (value) => typeof value === 'string' && value !== '' && [...value].length <= 4000,
  flag: (value) => typeof value === 'boolean',
  one: (value) => value === 1n,
  two: (value) => value === 2n,
  whole: (value) => isWhole(value, 0),
  positive: (value) => isWhole(value, 1),
  number: (value) => isNumber(value, 0, Infinity),
  share: (value) => isNumber(value, 0, 1),
  atLeastOne: (value) => isNumber(value, 1, Infinity),
  point: (value) => Array.isArray(value) && value.length === 2 && isNumber(value[0], 0, Infinity)
    && isNumber(value[1], 0, 1),
  rates: (value) => KINDS.point(value) && isNumber(value[0], 0, 1),
  step: (value) => isObject(value) && KINDS.text(value.step) && KINDS.flag(value.dataDependent),
  time: (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value))
    && new Date(value).toISOString() === value.replace('Z', '.000Z'),
};

/** Refuses a value that is not of the type; every key of a record must be there and no other. */
function check(value, type, where) {
  const expect = (holds, code = 'BAD_FIELD') => need(holds, code, `${where}: expected ${type}`);
  const inner = type.slice(0, -1), rule = SCHEMA[type === 'event' ? `event ${value?.type}` : type];
  if (type.endsWith('?')) {
    if (value !== null) check(value, inner, where);
  } else if (type.endsWith('*')) {
    expect(Array.isArray(value) && value.length <= 1000);
    value.forEach((item, index) => check(item, inner, `${where}[${index}]`));
  } else if (type.endsWith('%')) {
    expect(isObject(value) && Object.keys(value).every(KINDS.text));
    Object.entries(value).forEach(([key, item]) => check(item, inner, `${where}.${key}`));
  } else if (type in KINDS) {
    expect(KINDS[type](value));
  } else if (isObject(rule)) {
    const keys = Object.keys(rule);
    expect(isObject(value) && keys.sort().join() === Object.keys(value).sort().join());
    keys.forEach((key) => check(value[key], rule[key], `${where}.${key}`));
  } else {
    expect(rule && typeof value === 'string');
    const known = Array.isArray(rule) ? rule.includes(value) : RegExp(`^(${rule})$`).test(value);
    expect(known, 'UNKNOWN_VALUE');
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

function readKeys(bytes) {
  const { keys } = parseStrict(bytes, 'BAD_TRUST_STORE');
  for (const key of keys) {
    const raw = decodeBase64(key.publicKey, 'BAD_TRUST_STORE');
    const same = keys.filter((other) => other.keyid === key.keyid);
    need(sha256(raw) === key.keyid && same.length === 1, 'BAD_TRUST_STORE', key.name);
    const part = (from, to) => raw.subarray(from, to).toString('base64url');
    const isEdwards = key.algorithm === 'ed25519';
    const y = BigInt(`0x${Buffer.from(raw).reverse().toString('hex')}`) % 2n ** 255n;
    const isSound = isEdwards ? raw.length === 32 && y < PRIME && !SMALL_ORDER.includes(y)
      : raw.length === 65 && raw[0] === 4;
    need(isSound, 'WEAK_KEY', key.name);
    key.object = createPublicKey({ format: 'jwk', key: isEdwards
      ? { kty: 'OKP', crv: 'Ed25519', x: part(0, 32) }
      : { kty: 'EC', crv: 'P-256', x: part(1, 33), y: part(33, 65) } });
    key.hash = isEdwards ? null : 'sha256';
  }
  return keys;
}

/** Returns the payload of an envelope and which of the keys signed it. */
function openEnvelope(line, keys) {
  const type = 'application/vnd.in-toto+json';
  const envelope = parseStrict(line, 'BAD_ENVELOPE', 512 * 1024);
  need(envelope?.payloadType === type, 'BAD_ENVELOPE', 'payload type');
  check(envelope.signatures, 'signature*', 'signatures');
  need(envelope.signatures.length <= 16, 'BAD_ENVELOPE', 'signatures');
  const payload = decodeBase64(envelope.payload, 'BAD_ENVELOPE');
  const message = Buffer.concat([Buffer.from(`DSSEv1 28 ${type} ${payload.length} `), payload]);
  const made = envelope.signatures.map((item) => [item.keyid, decodeBase64(item.sig)]);
  const signers = keys.filter((key) => made.some(([keyid, signature]) =>
    keyid === key.keyid && verify(key.hash, message, key.object, signature)));
  return { payload, signers };
}

// ---- Privacy loss. An outcome is a number z; with j records of the unit it is normal around
// j / noise, and w[j] says how probable that is. The loss is the logarithm of the likelihood ratio.
/** Returns 1 / noise^2 of Gaussians on one batch, which together are one Gaussian. */
function precision(event) {
  if (event.type === 'gaussian') return 1 / Number(event.noiseMultiplier) ** 2;
  if (event.type === 'composed') return Number(event.count) * precision(event.event);
  need(event.type === 'sequence', 'EPSILON_NOT_REPRODUCED', `${event.type} on a sample`);
  return event.events.reduce((sum, part) => sum + precision(part), 0);
}

/** Returns an event's steps: how often each ran, its noise, its weights, how probable it was. */
function steps(event, count = 1, size = 1) {
  const refuse = (found) => need(false, 'EPSILON_NOT_REPRODUCED', `can't recompute ${found}`);
  if (event.type === 'composed') return steps(event.event, count * Number(event.count), size);
  if (event.type === 'sequence') return event.events.flatMap((part) => steps(part, count, size));
  if (event.type === 'group' && size === 1 && event.size <= 64n) {
    return steps(event.event, count, Number(event.size));
  }
  if (event.type === 'cluster-sampled' && size === 1) {
    const [step, ...others] = steps(event.event);
    if (others.length || step?.count !== 1 || step.share !== 1) refuse('a cluster of several steps');
    return [{ ...step, count, share: Number(event.samplingRate) }];
  }
  if (event.type !== 'gaussian' && event.type !== 'poisson-sampled') refuse(event.type);
  const rate = Number(event.samplingRate ?? 1);
  let weights = [1];
  for (let record = 0; record < size; record++) {
    weights = [...weights, 0].map((w, j) => w * (1 - rate) + (weights[j - 1] ?? 0) * rate);
  }
  return [{ count, share: 1, weights, noise: precision(event.event ?? event) ** -0.5 }];
}

/** Returns the probability of each multiple of h as one step's loss, and of what lies beyond. */
function lossGrid({ weights, noise, share }, h, size, removed) {
  const grid = new Float64Array(size), reach = (weights.length - 1) / noise;
  need(reach < 25, 'EPSILON_NOT_REPRODUCED', 'noise is too small');
  const ratio = (z) => weights.reduce(
    (sum, w, j) => sum + w * Math.exp((j / noise) * (z - j / noise / 2)), 0);
  const cells = Math.min(2 ** 22, 2 ** 14 + Math.ceil((20 + reach) * reach / h));
  const width = (20 + reach) / cells;
  let beyond = 1e-20; // outcomes more than ten standard deviations away
  for (let cell = 0; cell < cells; cell++) {
    const losses = [0, 1].map((k) => Math.log(ratio((cell + k) * width - 10)));
    let with_ = 0, without = 0;
    for (const node of [0.21132486540518713, 0.7886751345948129]) { // Gauss-Legendre
      const z = (cell + node) * width - 10;
      const mass = Math.exp(-z * z / 2) * width / Math.sqrt(8 * Math.PI);
      without += mass;
      with_ += mass * ratio(z);
    }
    const [mass, other] = removed ? [with_, without] : [without, with_];
    const [least, most] = removed ? losses : [-losses[1], -losses[0]];
    const low = Math.max(Math.floor(least / h), -size / 2);
    const high = Math.max(Math.ceil(most / h), low + 1);
    // Split between two points so that the cell stays as probable in both worlds.
    const upper = (mass - other * Math.exp(low * h)) / (1 - Math.exp((low - high) * h));
    const raised = Math.min(Math.max(upper, 0), mass);
    if (high >= size / 2) {
      beyond += mass;
    } else {
      grid[(low + size) % size] += share * (mass - raised);
      grid[(high + size) % size] += share * raised;
    }
  }
  grid[0] += 1 - share;
  return { grid, beyond };
}

function fourier(re, im) { // Stockham
  const n = re.length;
  let [a, b, c, d] = [re, im, new Float64Array(n), new Float64Array(n)];
  for (let half = n / 2, stride = 1; half >= 1; half /= 2, stride *= 2) {
    for (let p = 0; p < half; p++) {
      const cos = Math.cos(Math.PI * p / half), sin = -Math.sin(Math.PI * p / half);
      for (let from = stride * p, to = 2 * from; from < stride * (p + 1); from++, to++) {
        const other = from + n / 2, x = a[from] - a[other], y = b[from] - b[other];
        [c[to], d[to]] = [a[from] + a[other], b[from] + b[other]];
        [c[to + stride], d[to + stride]] = [x * cos - y * sin, x * sin + y * cos];
      }
    }
    [a, b, c, d] = [c, d, a === re ? new Float64Array(n) : a, b === im ? new Float64Array(n) : b];
  }
  return [a, b];
}
