// Verifies a hushdoc artifact: node verify.mjs ARTIFACT --trust trust.json --policy policy.json
// Written from docs/certificate-spec.md. What it does not understand, it refuses.
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { isReproduced } from './accounting.mjs';
import { SCHEMA, check, need, parseStrict, readFile } from './reading.mjs';
import { openEnvelope, readKeys, sha256 } from './signing.mjs';

const ENVELOPE = 'privacy.intoto.jsonl';

// ---- What was signed must make sense, be meant for this model, and be valid now.
const WATCHERS = ['server', 'co-client', 'network-observer'];
const hasWholeBound = ({ epsilonLower, delta, confidence }) =>
  (epsilonLower === null) === (delta === null) && (delta === null) === (confidence === null);

function checkSense({ subject, predicate }) {
  const { guarantees, transcripts, dataAccesses, protectedData, model, ...rest } = predicate;
  const expect = (holds, found) => need(holds, 'BAD_FIELD', found);
  const exists = (name) => name === null || name in transcripts;
  need(rest.critical.length === 0, 'UNKNOWN_CRITICAL', rest.critical.join());
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
  const names = protectedData.map(({ name }) => name);
  for (const { data, accountedIn, treatment } of dataAccesses) {
    expect((accountedIn.length > 0) === (treatment === 'accounted'), 'a treatment');
    expect(accountedIn.every(exists) && names.includes(data), 'an access');
  }
  const units = protectedData.flatMap((data) => data.units);
  expect(units.every((unit) => unit.count === null || unit.countIsPublic), 'a count');
  expect(rest.audits.every(hasWholeBound), 'an audit');
  need(subject.some(({ name }) => name === model.entry), 'BAD_SUBJECT', model.entry);
}

function checkIdentity({ model, issuedAt, expiresAt }, policy) {
  const time = (days) => `${new Date(Date.now() + days * 86400e3).toISOString().slice(0, 19)}Z`;
  need([null, model.name].includes(policy.model), 'WRONG_MODEL', model.name);
  need(model.version >= policy.min_version, 'ROLLBACK', `version ${model.version}`);
  need(issuedAt <= time(5 / 1440), 'NOT_YET_VALID', issuedAt);
  need(expiresAt === null || expiresAt > time(0), 'EXPIRED', expiresAt);
  const oldest = policy.max_age_days === null ? '' : time(-Number(policy.max_age_days));
  need(issuedAt >= oldest, 'STALE', issuedAt);
}

/** Returns what an auditor whom this model's user believes has signed about the certificate. */
function readAudits(line, auditors, certificateId, digest) {
  const { payload, signers } = openEnvelope(line, auditors, 64 * 1024);
  if (signers.length === 0) return [];
  const statement = parseStrict(payload);
  check(statement, 'audit statement', 'the audit');
  const { subject, predicate: report } = statement;
  const isOurs = subject.length === 1 && subject[0].digest.sha256 === digest;
  need(isOurs && report.certificateId === certificateId, 'BAD_SUBJECT', 'another certificate');
  need(report.audits.every(hasWholeBound), 'BAD_FIELD', 'an audit');
  return report.audits;
}

// ---- The rules: what is not stated is denied. Each is a code and whether it holds.
const SEEN_BY = { 'api-user': ['model-recipient', ...WATCHERS], 'model-recipient': WATCHERS };
const has = (event, type) => event.type === type
  || [event.event ?? event.events ?? []].flat().some((part) => has(part, type));

function isSampledAsCounted(sampling, event) {
  if (!event || has(event, 'without-replacement')) return false;
  return sampling === 'poisson' || (sampling === 'full-batch' && !has(event, 'poisson-sampled'));
}

function isRefuted({ adversary, unit, epsilon, delta, profile, auditLowerBound }, audits) {
  if (epsilon === null || delta === null) return false;
  const points = [[epsilon, delta], ...profile].map((point) => point.map(Number));
  const leastDelta = Math.min(...points.map((point) => point[1]));
  const isAbout = (audit) => audit.epsilonLower !== null && audit.unit === unit
    && [audit.adversary, ...SEEN_BY[audit.adversary] ?? []].includes(adversary);
  return auditLowerBound > epsilon || audits.filter(isAbout).some((audit) =>
    points.some(([stated, at]) => stated < audit.epsilonLower
      && at <= Math.max(Number(audit.delta), leastDelta)));
}

function failedRules(predicate, audits, policy) {
  const { guarantees, dataAccesses, protectedData, publicData, transcripts } = predicate;
  const eventOf = ({ transcript }) => (transcript === null ? null : transcripts[transcript]);
  const against = guarantees.filter((item) => item.adversary === policy.adversary);
  const accepted = against.filter((item) => policy.privacy_units.includes(item.unit));
  const judged = accepted.length ? accepted : against;
  const rank = (assurance) => SCHEMA.ASSURANCE.words.indexOf(assurance);
  const isCovered = ({ treatment, accountedIn }) => treatment !== 'unaccounted'
    && (!accountedIn.length || judged.every((item) => accountedIn.includes(item.transcript)));
  const isRead = ({ name }) => dataAccesses.some(({ data }) => data === name);
  const rulesForOne = (item) => [
    ['KIND_NOT_ALLOWED', policy.kinds.includes(item.kind)],
    ['ADJACENCY_NOT_ACCEPTED', policy.adjacency.includes(item.adjacency)],
    ['ACCOUNTANT_NOT_ACCEPTED', policy.accountants.includes(item.accountant.name)],
    ['EPSILON_TOO_LARGE', item.epsilon !== null && item.epsilon <= policy.max_epsilon],
    ['DELTA_TOO_LARGE', item.delta !== null && item.delta <= policy.max_delta],
    ['UNACCOUNTED_ACCESS', item.coversAllPrivateAccesses],
    ['SAMPLING_MISMATCH', isSampledAsCounted(item.samplingAsImplemented, eventOf(item))],
    ['TUNING_NOT_ACCEPTED', policy.hyperparameter_tuning.includes(item.hyperparameterTuning)],
    ['RNG_NOT_ACCEPTED', policy.rngs.includes(item.rng)],
  ];
  return [
    ['ASSURANCE_TOO_LOW', rank(predicate.assurance) >= rank(policy.min_assurance)],
    ['NO_GUARANTEE_FOR_ADVERSARY', against.length > 0],
    ['UNIT_NOT_ACCEPTED', accepted.length > 0],
    ...judged.flatMap(rulesForOne),
    ['UNACCOUNTED_ACCESS', protectedData.length > 0 && protectedData.every(isRead)
      && dataAccesses.every(isCovered)],
    ['UNACCOUNTED_ACCESS', predicate.derivation.every((step) => !step.dataDependent)],
    ['PUBLIC_DATA_OVERLAP', publicData.every(({ overlapWithProtected }) =>
      policy.public_overlap.includes(overlapWithProtected))],
    ['AUDIT_CONTRADICTION', !judged.some((item) => isRefuted(item, audits))],
    ...guarantees.filter((item) => item.kind.startsWith('dp')).map((item) =>
      [item.transcript === null ? 'NO_TRANSCRIPT' : 'EPSILON_NOT_REPRODUCED',
        isReproduced(item, eventOf(item))]),
  ].filter(([, holds]) => !holds).map(([code]) => code);
}

// ---- Files: each as it was signed, and nothing beside them.
const UNSIGNED = ['README.md', 'LICENSE', 'NOTICE', '.gitattributes', ENVELOPE];
const NAME = /^(?=.{1,200}$)[A-Za-z0-9][A-Za-z0-9._-]*(\/[A-Za-z0-9][A-Za-z0-9._-]*){0,3}$/;
const UNSAFE = /^privacy[.]intoto[.]jsonl$|(^|\/)(con|prn|aux|nul|(com|lpt)\d)([./]|$)|[.](\/|$)/i;

function checkFiles(folder, subjects, policy) {
  const names = subjects.map(({ name }) => name);
  const total = subjects.reduce((sum, { annotations }) => sum + annotations.size, 0n);
  const paths = new Set(names.flatMap((name) =>
    name.split('/').map((_, index, all) => all.slice(0, index + 1).join('/'))));
  const folded = new Set([...paths].map((path) => path.toLowerCase()));
  need(names.every((name) => NAME.test(name) && !UNSAFE.test(name)), 'BAD_PATH', names);
  need(folded.size === paths.size && new Set(names).size === names.length, 'BAD_SUBJECT', names);
  need(names.length <= policy.max_files && total <= policy.max_total_bytes, 'TOO_LARGE', folder);
  for (const { name, digest, annotations } of subjects) {
    const content = readFile(join(folder, name), Number(annotations.size));
    need(BigInt(content.length) === annotations.size, 'SIZE_MISMATCH', name);
    need(sha256(content) === digest.sha256, 'DIGEST_MISMATCH', name);
  }
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const name = relative(folder, join(entry.parentPath, entry.name));
    const isListed = entry.isDirectory() ? paths.has(name) || name === '.git'
      : entry.isFile() && [...names, ...UNSIGNED].includes(name);
    need(isListed || name.startsWith('.git/'), 'UNLISTED_FILE', name);
  }
}

// ---- The order of checks: the signature, what was signed, the policy, every file.
function verifyArtifact(folder, trustFile, policyFile) {
  const stated = parseStrict(readFileSync(policyFile), 'BAD_POLICY');
  const policy = { ...SCHEMA['policy defaults'], ...stated };
  check(policy, 'policy', 'the policy');
  const keys = readKeys(readFileSync(trustFile));
  const trusted = (role) => keys.filter((key) => key.roles.includes(role));
  const [line, ...further] = readFile(join(folder, ENVELOPE), 2 ** 21).toString('latin1')
    .replace(/\n$/, '').split('\n').map((text) => Buffer.from(text, 'latin1'));
  const { payload, signers } = openEnvelope(line, trusted('certificate'));
  need(signers.length >= policy.threshold, 'NO_TRUSTED_SIGNATURE', `${signers.length} signers`);
  const statement = parseStrict(payload);
  check(statement, 'statement', 'the statement');
  checkSense(statement);
  const { predicate, subject } = statement, { model, certificateId } = predicate;
  const speaks = (key) => key.models.includes('*') || key.models.includes(model.name);
  const speaking = signers.filter(speaks).length;
  need(speaking >= policy.threshold, 'KEY_NOT_AUTHORISED_FOR_MODEL', model.name);
  checkIdentity(predicate, policy);
  need(further.length <= 16, 'BAD_ENVELOPE', `${further.length} audits`);
  const auditors = trusted('audit').filter(speaks);
  const audits = further.flatMap((item) =>
    readAudits(item, auditors, certificateId, sha256(payload)));
  const failed = failedRules(predicate, [...predicate.audits, ...audits], policy);
  if (failed.length === 0) checkFiles(folder, subject, policy);
  return { title: `${model.name}, version ${model.version}, certificate ${certificateId}`, failed };
}

const { values, positionals: [artifact] } = parseArgs({
  allowPositionals: true, options: { trust: { type: 'string' }, policy: { type: 'string' } },
});
const print = (text) => console.log(text.replace(/[^ -~]/g, '?')); // nothing that steers a terminal
process.exitCode = 1;
try {
  const { title, failed } = verifyArtifact(artifact, values.trust, values.policy);
  if (failed.length === 0) process.exitCode = 0;
  print(failed.length ? `REFUSED: ${title}: ${failed.join(' ')}` : `ACCEPTED: ${title}`);
} catch (problem) {
  print(`REFUSED: ${problem.code ?? 'INTERNAL_ERROR'}: ${problem.message}`);
}
