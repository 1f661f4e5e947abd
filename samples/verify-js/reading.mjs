// Reads what others wrote: strict JSON, of which one text has one reading, and fields by a schema
// that names every key. Whatever two readers could read apart is refused.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';

export class Refusal extends Error {
  constructor(code, found) {
    super(found);
    this.code = code;
  }
}

export function need(holds, code, found) {
  if (!holds) throw new Refusal(code, found);
}

/** Returns the content of a regular file of so many bytes at most; a link is not followed. */
export function readFile(path, mostBytes) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(file);
    need(found.isFile(), 'NOT_REGULAR_FILE', path);
    need(found.size <= mostBytes, 'SIZE_MISMATCH', path);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

const STRING = '"[^"\\\\\\0-\\x1f]*(?:\\\\(?:["\\\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\\\\0-\\x1f]*)*"';
const NUMBER = '-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?';
const TOKEN = new RegExp(`[ \\t\\n\\r]*(${STRING}|${NUMBER}|true|false|null|[{}[\\],:]|$)`, 'y');

/** Returns the value of a text; whole numbers become BigInt, so that 3 and 3.0 stay apart. */
export function parseStrict(bytes, code = 'BAD_STATEMENT', mostBytes = 256 * 1024) {
  need(bytes.length <= mostBytes, 'CERT_TOO_LARGE', `${bytes.length} bytes`);
  const text = decodeUtf8(bytes, code);
  let at = 0;
  const expect = (holds) => need(holds, code, `no strict JSON at letter ${at}`);
  const next = () => {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    expect(found);
    at = TOKEN.lastIndex;
    return found[1];
  };
  const scalar = (token) => {
    expect(/^["\-0-9tfn]/.test(token));
    const value = JSON.parse(token);
    if (typeof value === 'string') expect(value.isWellFormed());
    if (typeof value !== 'number') return value;
    const isWhole = /^[-0-9]+$/.test(token);
    expect(isWhole ? Number.isSafeInteger(value) : Number.isFinite(value));
    expect(value !== 0 || !/[1-9]/.test(token.split(/e/i)[0])); // 1e-400 is not zero
    return isWhole ? BigInt(token) : value;
  };
  const value = (token, depth) => {
    if (token !== '{' && token !== '[') return scalar(token);
    expect(depth < 32);
    const isList = token === '[', close = isList ? ']' : '}';
    const found = isList ? [] : Object.create(null);
    token = next();
    while (token !== close) {
      const key = isList ? found.length : scalar(token);
      if (!isList) expect(typeof key === 'string' && !(key in found) && next() === ':');
      found[key] = value(isList ? token : next(), depth + 1);
      token = next();
      if (token === close) break;
      expect(token === ',');
      token = next();
      expect(token !== close);
    }
    return found;
  };
  const found = value(next(), 0);
  expect(next() === '');
  return found;
}

function decodeUtf8(bytes, code) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refusal(code, 'text that is not UTF-8');
  }
}

/** Returns the bytes of padded base64 without blanks; one value has one spelling. */
export function decodeBase64(value, code) {
  need(typeof value === 'string', code, 'no base64');
  const bytes = Buffer.from(value, 'base64');
  need(bytes.toString('base64') === value, code, 'base64 in another spelling');
  return bytes;
}

/** Types by name: a record of fields, a pair, words, a pattern, or the bounds of a number. */
export const SCHEMA = parseStrict(readFileSync(new URL('schema.json', import.meta.url)));

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isWithin = (value, [least, most]) => value >= least && (most === null || value <= most);
const BUILT_IN = {
  any: () => true,
  flag: (value) => typeof value === 'boolean',
  yes: (value) => value === true,
  text: (value) => typeof value === 'string' && value !== '' && [...value].length <= 4000,
  time: (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value))
    && new Date(value).toISOString() === value.replace('Z', '.000Z'),
  step: (value) => isObject(value) && BUILT_IN.text(value.step)
    && BUILT_IN.flag(value.dataDependent),
};

/** Refuses a value that is not of a type: T? is T or null, T* a list of T, T% an object of T. */
export function check(value, type, where) {
  const expect = (holds, code = 'BAD_FIELD') => need(holds, code, `${where}: expected ${type}`);
  const inner = type.slice(0, -1);
  if (type.endsWith('?')) {
    if (value !== null) check(value, inner, where);
  } else if (type.endsWith('*')) {
    expect(Array.isArray(value) && value.length <= 1000);
    value.forEach((item, index) => check(item, inner, `${where}[${index}]`));
  } else if (type.endsWith('%')) {
    expect(isObject(value) && Object.keys(value).length <= 1000);
    Object.keys(value).forEach((key) => check(key, 'text', where));
    Object.entries(value).forEach(([key, item]) => check(item, inner, `${where}.${key}`));
  } else if (type in BUILT_IN) {
    expect(BUILT_IN[type](value));
  } else if (type === 'event') {
    // Events stand inside one another, at most sixteen deep; each level lengthens the path.
    expect(isObject(value) && typeof value.type === 'string' && where.split('.event').length <= 16);
    expect(`event ${value.type}` in SCHEMA, 'UNKNOWN_VALUE');
    check(value, `event ${value.type}`, where);
  } else {
    checkNamed(value, SCHEMA[type], where, expect);
  }
}

function checkNamed(value, { record, pair, words, pattern, whole, number }, where, expect) {
  if (record) {
    expect(isObject(value));
    expect(Object.keys(value).sort().join() === Object.keys(record).sort().join());
    Object.entries(record).forEach(([key, type]) => check(value[key], type, `${where}.${key}`));
  }
  if (pair) {
    expect(Array.isArray(value) && value.length === 2);
    pair.forEach((type, index) => check(value[index], type, `${where}[${index}]`));
  }
  if (words || pattern) expect(typeof value === 'string');
  if (words) expect(words.includes(value), 'UNKNOWN_VALUE');
  if (pattern) expect(new RegExp(`^(?:${pattern})$`).test(value));
  if (whole) expect(typeof value === 'bigint' && isWithin(value, whole));
  if (number) expect(['bigint', 'number'].includes(typeof value) && isWithin(value, number));
}
