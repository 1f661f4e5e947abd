// Verifies a hushdoc artifact: node verify.mjs ARTIFACT --trust trust.json --policy policy.json
// Written from docs/certificate-spec.md. What it does not understand, it refuses.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { isReproduced } from './accounting.mjs';
import { check, decodeBase64, need, parseStrict } from './reading.mjs';

const ENVELOPE = 'privacy.intoto.jsonl';
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// ---- Signatures: DSSE v1. Algorithm, models and roles of a key come from the trust store alone.
const PRIME = 2n ** 255n - 19n;
const ORDER_EIGHT = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
const SMALL_ORDER = [0n, 1n, PRIME - 1n, ORDER_EIGHT, PRIME - ORDER_EIGHT];
const DER_HEAD = { // what stands before the raw bytes of a public key
  ed25519: '302a300506032b6570032100',
  'ecdsa-p256': '3059301306072a8648ce3d020106082a8648ce3d030107034200',
};

function readKeys(bytes) {
  const code = 'BAD_TRUST_STORE', store = parseStrict(bytes, code);
  check(store, 'trust store', 'the trust store');
  return store.keys.map((key) => {
    const raw = decodeBase64(key.publicKey, code), isEdwards = key.algorithm === 'ed25519';
    const twins = store.keys.filter(({ keyid }) => keyid === sha256(raw));
    need(twins.length === 1 && twins[0] === key, code, `the key id of ${key.name}`);
    const y = BigInt(`0x${Buffer.from(raw).reverse().toString('hex')}`) % 2n ** 255n;
    const isSound = isEdwards ? raw.length === 32 && y < PRIME && !SMALL_ORDER.includes(y)
      : raw.length === 65 && raw[0] === 4;
    need(isSound, 'WEAK_KEY', `the key of ${key.name}`);
    const der = Buffer.concat([Buffer.from(DER_HEAD[key.algorithm], 'hex'), raw]);
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' });
    const digest = isEdwards ? null : 'sha256';
    return { ...key, signed: (message, made) => verify(digest, message, publicKey, made) };
  });
}

/** Returns the statement of an envelope and those of the keys that signed it for its model. */
function openEnvelope(line, keys) {
  const type = 'application/vnd.in-toto+json', code = 'BAD_ENVELOPE';
  const envelope = parseStrict(line, code, 512 * 1024);
  need(envelope?.payloadType === type, code, 'another payload type');
  check(envelope.signatures, 'signature*', 'signatures');
  need(envelope.signatures.length <= 16, code, 'more than 16 signatures');
  const payload = decodeBase64(envelope.payload, code);
  const message = Buffer.concat([Buffer.from(`DSSEv1 28 ${type} ${payload.length} `), payload]);
  const made = envelope.signatures.map(({ keyid, sig }) => [keyid, decodeBase64(sig, code)]);
  const hasSigned = (key) => made.some(([keyid, bytes]) =>
    keyid === key.keyid && key.signed(message, bytes));
  return { payload, signers: keys.filter(hasSigned) };
}

// ---- What a certificate says must make sense, be meant for this model, and be valid now.
const WATCHERS = ['server', 'co-client', 'network-observer'];

function checkSense({ subject, predicate }) {
  const { guarantees, transcripts, dataAccesses, protectedData, model, ...rest } = predicate;
  const expect = (holds, found) => need(holds, 'BAD_FIELD', found);
  const exists = (name) => name === null || name in transcripts;
  expect(guarantees.length > 0 && guarantees.length <= 64, 'the number of guarantees');
  expect(Object.keys(transcripts).length <= 16, 'the number of transcripts');
  expect(rest.expiresAt === null || rest.expiresAt > rest.issuedAt, 'expiresAt');
  for (const { kind, epsilon, delta, profile, ...item } of guarantees) {
    const isPromise = epsilon !== null && delta !== null;
    const isEmpty = epsilon === null && delta === null && profile.length === 0;
    expect({ none: isEmpty, empirical: true }[kind] ?? isPromise, `epsilon of kind ${kind}`);
    expect((item.reason !== null) === (kind === 'none'), 'a reason');
    expect((item.condition !== null) === (kind === 'dp-conditional'), 'a condition');
    expect(item.aggregation !== 'central' || !WATCHERS.includes(item.adversary), 'aggregation');
    expect(profile.length <= 32 && exists(item.transcript), 'a profile or transcript');
  }
  for (const { data, accountedIn, treatment } of dataAccesses) {
    expect((accountedIn !== null) === (treatment === 'accounted'), 'a treatment');
    expect(exists(accountedIn) && protectedData.some(({ name }) => name === data), 'an access');
  }
  const units = protectedData.flatMap((data) => data.units);
  expect(units.every((unit) => unit.count === null || unit.countIsPublic), 'a count');
  need(rest.critical.length === 0, 'UNKNOWN_CRITICAL', rest.critical);
  need(subject.some(({ name }) => name === model.entry), 'BAD_SUBJECT', model.entry);
}

function checkIdentity({ model, issuedAt, expiresAt }, policy) {
  const time = (shift) => `${new Date(Date.now() + shift).toISOString().slice(0, 19)}Z`;
  need([null, model.name].includes(policy.model ?? null), 'WRONG_MODEL', model.name);
  need(model.version >= (policy.min_version ?? 0), 'ROLLBACK', `version ${model.version}`);
  need(issuedAt <= time(5 * 60 * 1000), 'NOT_YET_VALID', issuedAt);
  need(expiresAt === null || expiresAt > time(0), 'EXPIRED', expiresAt);
}

// ---- The rules: what is not stated is denied. Each is a code and whether it holds.
const RANKS = ['self-attested', 'reproduced', 'third-party', 'enclave-attested'];
const SEEN_BY = { 'api-user': ['model-recipient', ...WATCHERS], 'model-recipient': WATCHERS };

function rulesForOne(item, policy, { transcripts, audits }) {
  const { epsilon, delta, samplingAsImplemented: sampling } = item;
  const points = [[epsilon, delta], ...item.profile];
  const leastDelta = Math.min(...points.map((point) => Number(point[1])));
  const refutes = (audit) => points.some((point) => point[0] < audit.epsilonLower
    && point[1] <= Math.max(Number(audit.delta), leastDelta));
  const isAbout = (audit) => audit.epsilonLower !== null && audit.unit === item.unit
    && [audit.adversary, ...SEEN_BY[audit.adversary] ?? []].includes(item.adversary);
  return [
    ['KIND_NOT_ALLOWED', policy.kinds.includes(item.kind)],
    ['ADJACENCY_NOT_ACCEPTED', policy.adjacency.includes(item.adjacency)],
    ['ACCOUNTANT_NOT_ACCEPTED', policy.accountants.includes(item.accountant.name)],
    ['EPSILON_TOO_LARGE', epsilon !== null && epsilon <= policy.max_epsilon],
    ['DELTA_TOO_LARGE', delta !== null && delta <= policy.max_delta],
    ['UNACCOUNTED_ACCESS', item.coversAllPrivateAccesses],
    ['SAMPLING_MISMATCH', allows(transcripts[item.transcript], sampling)],
    ['TUNING_NOT_ACCEPTED', policy.hyperparameter_tuning.includes(item.hyperparameterTuning)],
    ['RNG_NOT_ACCEPTED', policy.rngs.includes(item.rng)],
    ['AUDIT_CONTRADICTION', epsilon === null
      || (!(item.auditLowerBound > epsilon) && !audits.filter(isAbout).some(refutes))],
  ];
}

const has = (event, type) => event.type === type
  || [event.event ?? event.events ?? []].flat().some((part) => has(part, type));

/** Returns whether batches were drawn as the transcript counts them. */
function isAsCounted(sampling, event) {
  if (!event || has(event, 'without-replacement')) return false;
  return sampling === 'poisson' || (sampling === 'full-batch' && !has(event, 'poisson-sampled'));
}

function failedRules(predicate, audits, policy) {
  const { guarantees, dataAccesses, protectedData, publicData, transcripts } = predicate;
  const against = guarantees.filter((item) => item.adversary === policy.adversary);
  const accepted = against.filter((item) => policy.privacy_units.includes(item.unit));
  const judged = accepted.length ? accepted : against;
  const isCovered = ({ treatment, accountedIn }) => treatment !== 'unaccounted'
    && judged.every((item) => [null, item.transcript].includes(accountedIn));
  const isRead = ({ name }) => dataAccesses.some(({ data }) => data === name);
  const rank = RANKS.indexOf(predicate.assurance);
  return [
    ['ASSURANCE_TOO_LOW', rank >= RANKS.indexOf(policy.min_assurance)],
    ['NO_GUARANTEE_FOR_ADVERSARY', against.length > 0],
    ['UNIT_NOT_ACCEPTED', accepted.length > 0],
    ...judged.flatMap((item) => rulesForOne(item, policy, transcripts)),
    ['UNACCOUNTED_ACCESS', protectedData.length > 0 && protectedData.every(isRead)
      && dataAccesses.every(isCovered)],
    ['UNACCOUNTED_ACCESS', predicate.derivation.every((step) => !step.dataDependent)],
    ['PUBLIC_DATA_OVERLAP', publicData.every(({ overlapWithProtected }) =>
      policy.public_overlap.includes(overlapWithProtected))],
    ['AUDIT_CONTRADICTION', judged.every((item) => !isRefuted(item, audits))],
    ...guarantees.filter((item) => item.kind.startsWith('dp')).map((item) =>
      ['EPSILON_NOT_REPRODUCED', isReproduced(item, transcripts[item.transcript])]),
  ].filter(([, holds]) => !holds).map(([code]) => code);
}

// ---- Files: each as it was signed, and nothing beside them.
const UNSIGNED = ['README.md', 'LICENSE', 'NOTICE', '.gitattributes', ENVELOPE];
const NAME = /^(?=.{1,200}$)[A-Za-z0-9][A-Za-z0-9._-]*(\/[A-Za-z0-9][A-Za-z0-9._-]*){0,3}$/;
const UNSAFE = /(^|\/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|\/|$)|\.(\/|$)/i;

function readFile(path, mostBytes) {
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

function checkFiles(folder, subjects) {
  const names = subjects.map((subject) => subject.name);
  const above = (name) => name.split('/').map((_, i, all) => all.slice(0, i + 1).join('/'));
  const paths = new Set(names.flatMap(above)), isTwice = (all) => new Set(all).size < all.length;
  need(names.every((name) => NAME.test(name) && !UNSAFE.test(name)), 'BAD_PATH', names);
  need(!isTwice(names) && !isTwice([...paths].map((path) => path.toLowerCase())), 'BAD_SUBJECT', names);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const name = relative(folder, join(entry.parentPath, entry.name));
    const isListed = entry.isDirectory() ? paths.has(name) || name === '.git'
      : entry.isFile() && [...names, ...UNSIGNED].includes(name);
    need(isListed || name.startsWith('.git/'), 'UNLISTED_FILE', name);
  }
  for (const { name, digest, annotations: { size } } of subjects) {
    const content = readFile(join(folder, name), Number(size));
    need(content.length === Number(size), 'SIZE_MISMATCH', name);
    need(sha256(content) === digest.sha256, 'DIGEST_MISMATCH', name);
  }
}

// ---- The order of checks: signature, what it signs, the policy, every file.
function verifyArtifact(folder, trustFile, policyFile) {
  const policy = parseStrict(readFileSync(policyFile), 'BAD_POLICY');
  check(policy, 'policy', 'the policy');
  const keys = readKeys(readFileSync(trustFile));
  const trusted = (role) => keys.filter((key) => key.roles.includes(role));
  const lines = readFile(join(folder, ENVELOPE), 2 ** 21).toString('latin1').replace(/\n$/, '');
  const [line, ...further] = lines.split('\n').map((text) => Buffer.from(text, 'latin1'));
  const { payload, signers } = openEnvelope(line, trusted('certificate'));
  need(signers.length >= policy.threshold, 'NO_TRUSTED_SIGNATURE', `${signers.length} signers`);
  const statement = parseStrict(payload), { predicate } = statement;
  check(statement, 'statement', 'the statement');
}
