// Verifies a hushdoc artifact, written from docs/certificate-spec.md, in Node and in browsers.
// What it does not understand, it refuses. Types, limits and the table of rules are schema.json.
import SCHEMA from './schema.json' with { type: 'json' };
const need = (holds, code, found) => { if (!holds) throw Object.assign(Error(found), { code }); };
const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
const textOf = (bytes) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
const bytesOf = (text) => new TextEncoder().encode(text);
const decoded = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt());
const sha256 = async (bytes) => hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
// ---- Strict JSON: one text has one reading. Integers become BigInt: 3 and 3.0 stay apart.
const TOKEN = /"(?:[^"\\]|\\.)*"|[^ \t\n\r"{}[\],:]+|[{}[\],:]/gs;
export function parse(bytes, mostBytes = 256 * 1024) {
  need(bytes.length <= mostBytes, 'CERT_TOO_LARGE', `${bytes.length} bytes`);
  const expect = (holds, found) => need(holds, 'BAD_JSON', found), text = textOf(bytes);
  const plain = JSON.stringify(JSON.parse(text)), tokens = text.match(TOKEN);
  const again = bytesOf(text), isSound = again.every((byte, index) => byte === bytes[index]);
  expect(isSound && again.length === bytes.length && !/\\u(0000|d[89a-f])/.test(plain), 'unsound');
  expect(plain.match(TOKEN).length === tokens.length, 'a key twice');
  let depth = 0; // also of what is ignored later
  const marked = tokens.map((token) => {
    depth += '[{'.includes(token[0]) - ']}'.includes(token[0]);
    expect(depth <= 32, 'more than 32 levels');
    if (!/^[-\d]/.test(token)) return token;
    const value = Number(token), isInteger = /^-?\d+$/.test(token), isZero = /^[-0.]+(e|$)/i;
    const isKept = Number.isFinite(value) && isZero.test(token) === (value === 0); // no 1e-400
    expect(isInteger ? Number.isSafeInteger(value) : isKept, token);
    return isInteger ? `"\\u0000${token}"` : token;
  });
  return JSON.parse(marked.join(''), (_, x) => (x?.[0] === '\0' ? BigInt(x.slice(1)) : x));
}
/** Refuses a value that is not of a type: T? is T or null, T* a list of T, T% an object of T. */
export function read(value, type, where = type) {
  const expect = (holds, code = 'BAD_FIELD') => need(holds, code, `${where}: expected ${type}`);
  const [, inner, mark] = /^(.*?)([?*%]?)$/.exec(type), isObject = value instanceof Object;
  if (mark === '?') return value === null ? null : read(value, inner, where);
  if (type === 'any' && isObject) return read(value, Array.isArray(value) ? 'any*' : 'any%', where);
  const rule = mark ? { each: inner } : SCHEMA[type === 'event' ? `event ${value?.type}` : type];
  expect(rule && where.split('.').length <= 32 && where.split('.event').length <= 16);
  const { each, holds, pair, types = rule.record ?? holds ?? pair, pattern, integer } = rule;
  const words = rule.words ?? rule.values, [low, high, also] = integer ?? rule.number ?? [];
  if (each || types) {
    expect(isObject && Array.isArray(value) === (mark === '*' || pair !== undefined));
    const keys = Object.keys(value).sort(), [least, most] = SCHEMA.limits[type] ?? [0, 1000];
    expect(keys.length >= least && keys.length <= most);
    expect(each || holds || `${keys}` === `${Object.keys(types).sort()}`);
    if (mark === '%') keys.forEach((key) => read(key, 'text', where));
    const fields = Object.keys(types ?? value).map((key) =>
      [key, read(value[key], each ?? types[key], `${where}.${key}`)]);
    rule.by?.map((key) => [`${key} ${value[key]}`, `${key} else`]).forEach((demands) =>
      read(value, demands.find((name) => name in SCHEMA), where)); // of the other fields
    return Array.isArray(value) ? fields.map(([, item]) => item) : Object.fromEntries(fields);
  }
  if (words) expect(words.includes(value), 'UNKNOWN_VALUE');
  if (pattern) expect(typeof value === 'string' && RegExp(`^(?:${pattern})$`, 'su').test(value));
  if (high) expect(['bigint', also].includes(typeof value) && value >= low && value <= high);
  return typeof value === 'bigint' ? Number(value) : value;
}
// ---- Keys and signatures (DSSE v1). A key's algorithm, models and roles: from the store alone.
const [PRIME, D, ...SMALL_ORDER] = SCHEMA.ed25519.map(BigInt); // -x^2 + y^2 = 1 + D x^2 y^2
const power = (x, n) => (n ? power((x * x) % PRIME, n / 2n) * (n % 2n ? x : 1n) % PRIME : 1n);
const yOf = (point) => BigInt(`0x0${hexOf(Uint8Array.from(point).reverse())}`) % 2n ** 255n;
const isUsable = (y) => y < PRIME && !SMALL_ORDER.includes(y);
async function readKey({ keyid, algorithm, publicKey, ...key }) {
  const raw = decoded(read(publicKey, 'base64')), isEd = algorithm === 'ed25519', y = yOf(raw);
  const isSquare = power((y * y + PRIME - 1n) * (D * y * y + 1n) % PRIME, PRIME / 2n);
  const isSound = isEd ? raw.length === 32 && isUsable(y) && isSquare === 1n : raw.length === 65;
  need(isSound && (isEd || raw[0] === 4), 'WEAK_KEY');
  need(await sha256(raw) === keyid, 'BAD_TRUST_STORE', `${keyid} is the id of another key`);
  const how = SCHEMA.algorithms[algorithm], opened = await crypto.subtle.importKey(
    'raw', raw, how, false, ['verify']).catch(() => need(false, 'WEAK_KEY'));
  const made = async (sig, text) => (isEd ? isUsable(yOf(sig.subarray(0, 32))) : rawOf(sig))
    && crypto.subtle.verify(how, opened, isEd ? sig : rawOf(sig), text);
  return { ...key, keyid, made };
}
function rawOf(der) { // the two numbers of a signature, 32 bytes each, if it is strict DER
  let at = 2;
  const numbers = ['r', 's'].map(() => {
    const bytes = der.slice(at + 2, at + 2 + der[at + 1]), pad = bytes[0] === 0 ? 1 : 0;
    const isWhole = der[at] === 2 && bytes.length === der[at + 1] && bytes.length <= 32 + pad;
    at += 2 + bytes.length;
    return isWhole && bytes[0] < 128 && (!pad || bytes[1] >= 128) && bytes.slice(pad);
  });
  const isSound = der[0] === 48 && der[1] === at - 2 && der.length === at && numbers.every(Boolean);
  return isSound && joined(...numbers.flatMap((one) => [new Uint8Array(32 - one.length), one]));
}
// ---- Renyi accounting of Gaussian steps, at the orders of schema.json.
const mix = (q, log) => (log > 0 ? log + Math.log(q + (1 - q) * Math.exp(-log))
  : Math.log1p(q * Math.expm1(log))); // log(1 - q + q exp(log))
let work = 0; // terms of all sums, whatever they are for
function moment(a, q, m) { // log E_Q[(P/Q)^a] for P = (1-q) N(0, 1) + q N(m, 1), Q = N(0, 1)
  const width = Math.min(0.25, 0.5 / m), count = Math.ceil((a * m + m + 24) / width);
  if (!(count < 30000) || (work += count) > SCHEMA.work.terms) return Infinity;
  const term = (z) => a * mix(q, m * z - (m * m) / 2) - (z * z) / 2;
  const terms = Array.from({ length: count }, (_, index) => term(index * width - 12));
  const most = Math.max(...terms), sum = terms.reduce((x, y) => x + Math.exp(y - most), 0);
  return most + Math.log((sum * width) / Math.sqrt(2 * Math.PI)) + 1e-12 + 1e-15 * (a * m) ** 2;
}
export function divergence({ type, event, events, samplingRate: q, ...rest }, a) {
  const parts = [events ?? event ?? []].flat().map((part) => divergence(part, a));
  if (type === 'gaussian') return a / (2 * rest.noiseMultiplier ** 2);
  if (type === 'composed') return rest.count * parts[0];
  if (type === 'sequence') return parts.reduce((sum, part) => sum + part, 0);
  if (type === 'parallel') return Math.max(0, ...parts);
  if (type === 'cluster-sampled') return mix(q, (a - 1) * parts[0]) / (a - 1);
  const ours = type === 'poisson-sampled' && event.type === 'gaussian';
  return ours ? moment(a, q, 1 / event.noiseMultiplier) / (a - 1) : Infinity;
}
function isReproduced({ event, ...item }, exact) {
  const points = [[item.epsilon, item.delta], ...item.profile];
  const falls = points.every(([high, at]) => points.every(([low, from]) =>
    at > from || (at === from ? high === low : high >= low)));
  const isPlain = [item.adjacency, item.name].every((word) => SCHEMA.provable.includes(word));
  if (!falls || !isPlain || !event || JSON.stringify(event).length > 1e4) return false; // too long
  const curve = SCHEMA.orders.map((a) => [a, divergence(event, a) + Math.log1p(-1 / a)]);
  const isProven = ([e, d]) => curve.some(([a, rho]) => rho - Math.log(d * a) / (a - 1) <= e);
  return points.every(isProven) || exact?.isReproduced(item, event) === true;
}
// ---- Guarantees against one another and against audits; what an event reads.
const readsData = ({ event, events, samplingRate, sampleSize, count }) =>
  ![samplingRate, sampleSize, count].includes(0)
  && (event || events ? [events ?? event].flat().some(readsData) : true);
const pointsOf = ({ epsilon, delta, profile }) => [[epsilon ?? Infinity, delta ?? 0], ...profile];
const isWeaker = (one, other) => SCHEMA['seen by'][one.adversary]?.includes(other.adversary)
  && one.unit === other.unit && one.adjacency === other.adjacency && other.kind === 'dp'
  && (one.kind !== 'dp' || pointsOf(one).some(([epsilon, delta]) =>
    pointsOf(other).some(([less, least]) => epsilon > less && delta >= least)));
export function leastEpsilon({ tprAtFpr: rates, canaries, runs }, delta) {
  const members = canaries === null ? Infinity : (canaries * runs || 1e-9) / 2;
  const error = Math.log(80 * rates.length) / members;
  const most = (x) => Math.min(1, x + error + Math.sqrt(error * (error + 2 * x)),
    x + Math.sqrt(2 * error * (1 - x))), least = (x) => 1 - most(1 - x);
  const ratios = rates.flatMap(([hits, alarms]) => [
    [least(hits), most(alarms)], [1 - most(alarms), 1 - least(hits)],
    [least(alarms), most(hits)], [1 - most(hits), 1 - least(alarms)],
  ]).filter(([above]) => above > delta).map(([above, below]) => (above - delta) / below);
  return Math.log(Math.max(1, ...ratios));
}
// ---- What was signed: each demand is a code and whether it holds. What is not declared is denied.
function checkRules({ subject, predicate }, policy, now, exact) {
  work = 0;
  const { transcripts, dataAccesses, protectedData, model, ...rest } = predicate;
  const time = (days) => `${new Date(now + days * 86400e3).toISOString().slice(0, 19)}Z`;
  const eventOf = ({ transcript }) => transcripts[transcript ?? '']; // no key is empty
  const guarantees = rest.guarantees.map((item) => ({ ...item.accountant, ...item,
    event: eventOf(item), isAsCounted: RegExp(SCHEMA['counted as'][item.samplingAsImplemented])
      .test(JSON.stringify(eventOf(item))),
    isDrawnAsCounted: RegExp(SCHEMA['drawn as'][item.clusterSamplingAsImplemented])
      .test(JSON.stringify(eventOf(item))) }));
  const claimed = guarantees.filter(({ kind }) => kind.startsWith('dp'));
  const questions = claimed.reduce((sum, { event = {}, profile }) =>
    sum + (1 + profile.length) * JSON.stringify(event).split('"type":').slice(1).length, 0);
  const against = guarantees.filter((item) => item.adversary === policy.adversary);
  const accepted = against.filter((item) => policy.privacy_units.includes(item.unit));
  const judged = accepted.length ? accepted : against, { words: ranks } = SCHEMA.ASSURANCE;
  const isThere = (name) => name === null || Object.hasOwn(transcripts, name);
  const isRefuted = (item) => item.auditLowerBound > item.epsilon
    || rest.audits.some((audit) => audit.unit === item.unit && pointsOf(item).some(
      ([epsilon, delta]) => (audit.epsilonLower ?? leastEpsilon(audit, delta)) > epsilon));
  const isOfData = ({ unit: guaranteed }) => protectedData.every(({ units }) =>
    units.some(({ unit }) => unit === guaranteed));
  const isUsed = (name) => guarantees.some((item) => item.transcript === name
    && (item.kind.startsWith('dp') || judged.includes(item)));
  const fits = (x, most) => [most].flat().includes(x) || (typeof x === 'number' && x <= most);
  const failed = [
    ['BAD_FIELD', guarantees.every(({ transcript }) => isThere(transcript))],
    ['BAD_SUBJECT', subject.some(({ name }) => name === model.entry)],
    ['WRONG_MODEL', [null, model.name].includes(policy.model)],
    ['ROLLBACK', model.version >= policy.min_version],
    ['CLOCK_IMPLAUSIBLE', time(0) > '2026-11' && time(0) < '2126-11'],
    ['NOT_YET_VALID', rest.issuedAt <= time(5 / 1440)],
    ['EXPIRED', (rest.expiresAt ?? '9') > time(0) && (rest.expiresAt ?? '9') > rest.issuedAt],
    ['STALE', rest.issuedAt >= time(-(policy.max_age_days ?? 4e4))],
    ['ASSURANCE_TOO_LOW', ranks.indexOf(rest.assurance) >= ranks.indexOf(policy.min_assurance)],
    ['NO_GUARANTEE_FOR_ADVERSARY', against.length > 0],
    ['UNIT_NOT_ACCEPTED', accepted.length > 0],
    ...judged.flatMap((item) => [['UNIT_NOT_IN_DATA', isOfData(item)],
      ...SCHEMA.rules.map(([code, field, setting]) => [code, fits(item[field], policy[setting])])]),
    ['UNACCOUNTED_ACCESS',
      dataAccesses.every(({ treatment }) => policy.treatments.includes(treatment))],
    ['UNACCOUNTED_ACCESS', protectedData.length > 0
      && protectedData.every(({ name }) => dataAccesses.some(({ data, accountedIn }) =>
        data === name && accountedIn.length))
      && dataAccesses.every(({ data, accountedIn: keys }) =>
        protectedData.some(({ name }) => name === data)
        && keys.every((key) => isThere(key) && readsData(transcripts[key]))
        && (!keys.length || judged.every((item) => keys.includes(item.transcript))))],
    ['UNACCOUNTED_ACCESS', Object.keys(transcripts).every(isUsed)],
    ['UNACCOUNTED_ACCESS', rest.derivation.every((step) => !step.dataDependent)],
    ['PUBLIC_DATA_OVERLAP', rest.publicData.every((data) =>
      policy.public_overlap.includes(data.overlapWithProtected))],
    ['GUARANTEES_CONTRADICT', !guarantees.some((one) =>
      guarantees.some((other) => isWeaker(one, other)))],
    ['AUDIT_CONTRADICTION', !judged.some(isRefuted)],
    ...claimed.map((item) => [item.event ? 'EPSILON_NOT_REPRODUCED' : 'NO_TRANSCRIPT',
      questions <= SCHEMA.work.questions && isReproduced(item, exact)]),
  ].filter(([, holds]) => !holds).map(([code]) => code);
  need(failed.length === 0, failed.join(' '), `${model.name}, version ${model.version}`);
}
// ---- Files: each as it was signed, and nothing beside them.
async function checkFiles(place, subjects, model, policy) {
  const names = subjects.map(({ name }) => read(name, 'path'));
  const total = subjects.reduce((sum, { annotations }) => sum + annotations.size, 0);
  const folders = new Set(['.git', ...names.flatMap((name) =>
    name.split('/').map((_, index, all) => all.slice(0, index).join('/')))]);
  const paths = [...names, ...folders], folded = new Set(paths.map((path) => path.toLowerCase()));
  need(folded.size === paths.length, 'BAD_SUBJECT', names);
  need(names.length <= policy.max_files && total <= policy.max_total_bytes, 'TOO_LARGE', total);
  for (const { name, isFolder, isFile } of await place.entries()) {
    const ours = isFile && [...names, ...SCHEMA.unsigned].includes(name);
    need(name.startsWith('.git/') || (isFolder ? folders.has(name) : ours), 'UNLISTED_FILE', name);
  }
  let manifest;
  for (const { name, digest, annotations: { size } } of subjects) {
    const bytes = await place.read(name, size), isWhole = bytes.length === size;
    need(isWhole && await sha256(bytes) === digest.sha256, 'DIGEST_MISMATCH', name);
    if (name === 'hushdoc.json') manifest = parse(bytes);
  }
  const { task, entry, preprocessing: { graphs = {}, hashTable } } = read(manifest, 'manifest');
  need(task === model.task && entry === model.entry && graphs instanceof Object
    && !Array.isArray(graphs) && !(hashTable?.reference >= hashTable?.columns)
    && read(manifest, `manifest of ${model.format}`) && Object.values(graphs)
    .every((one) => names.includes(one?.entry) && one.entry.endsWith('.onnx')), 'BAD_MANIFEST');
}
// ---- In order: signature, what was signed, files. Places read, and list `name, isFolder, isFile`.
export async function examine(place, { trust, policy: demands, now, exact }) {
  const defaults = parse(bytesOf(JSON.stringify(SCHEMA['policy defaults'])));
  const policy = read({ ...defaults, ...parse(demands) }, 'policy');
  const { keys } = read(parse(trust), 'trust store');
  const ids = keys.flatMap(({ keyid, roles }) => [keyid, ...roles.map((role) => keyid + role)]);
  need(new Set(ids).size === ids.length, 'BAD_TRUST_STORE', 'a key or role twice');
  const line = await place.read('privacy.intoto.jsonl', 2 ** 19 + 1);
  need(!/\n./s.test(textOf(line)), 'BAD_ENVELOPE', 'it has audits by others: use hushdoc');
  const { payloadType: type, payload, signatures } = read(parse(line, 2 ** 19 + 1), 'envelope');
  const content = decoded(payload);
  const message = joined(bytesOf(`DSSEv1 28 ${type} ${content.length} `), content);
  const signers = [];
  for (const key of await Promise.all(keys.map(readKey))) {
    const own = signatures.filter(({ keyid: k = '' }) => ['', key.keyid].includes(read(k, 'some')));
    const made = await Promise.all(own.map(({ sig }) => key.made(decoded(sig), message)));
    if (key.roles.includes('certificate') && made.some(Boolean)) signers.push(key);
  }
  need(signers.length >= policy.threshold, 'NO_TRUSTED_SIGNATURE', `${signers.length} signers`);
  const statement = read(parse(content), 'statement'), { model } = statement.predicate;
  const able = signers.filter(({ models }) => models.includes('*') || models.includes(model.name));
  need(able.length >= policy.threshold, 'KEY_NOT_AUTHORISED_FOR_MODEL', model.name);
  checkRules(statement, policy, now, exact);
  await checkFiles(place, statement.subject, model, policy);
  return statement;
}
