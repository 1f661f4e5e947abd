// A certificate's statement in plain words: the sentences of hushdoc.explanation.

const ADVERSARIES = {
  'model-recipient': 'anyone who receives the model file',
  'api-user': 'anyone who only queries the model',
  'synthetic-data-recipient': 'anyone who receives the synthetic data',
  server: 'the server that coordinates training',
  'co-client': 'another client of the same training',
  'network-observer': 'anyone who listens on the network',
};
const UNITS = {
  'token-term': 'term', 'word-box': 'word', sequence: 'text window', page: 'page',
  document: 'document', client: 'client', provider: 'provider', user: 'person',
};
const ADJACENCY = {
  'add-remove': 'whether it was used or left out',
  'replace-one': 'whether it was used or another one in its place',
  'zero-out': 'whether it was used or an empty one in its place',
  'all-occurrences-of-one-term': 'whether all its places were used or none',
};
const ASSURANCE = {
  'self-attested': 'only the issuer attests that training ran as declared.',
  reproduced: 'it says that somebody repeated the training and obtained the same model.',
  'third-party': 'it says that a third party attests that training ran as declared.',
  'enclave-attested': 'it says that a hardware enclave attests that training ran as declared.',
};
const FALSE_ALARMS = [0.1, 0.01, 0.001];

/** Returns who issued the certificate, and when. */
export function issued({ issuedAt, issuer, assurance, expiresAt }) {
  const ends = expiresAt ? ` It expires ${expiresAt}.` : '';
  return `Issued ${issuedAt} by ${issuer}; ${ASSURANCE[assurance]}${ends}`;
}

/** Returns each guarantee as `{ kind, words, further }`, what its numbers rule out included. */
export function guarantees(predicate) {
  return predicate.guarantees.map((item) => ({
    kind: item.kind,
    words: guaranteeWords(item),
    further: [...meaning(item), `One unit is: ${item.unitDefinition}`,
      `They observe: ${item.observes}.`, `They may know: ${item.knows}.`,
      ...item.assumes.map((words) => `It assumes: ${words}`)],
  }));
}

function guaranteeWords({ adversary, unit: protectedUnit, kind, reason, adjacency, ...item }) {
  const who = ADVERSARIES[adversary], unit = UNITS[protectedUnit];
  if (kind === 'none') {
    return `No privacy guarantee for any ${unit} against ${who}: ${reason || 'no reason is given'}`;
  }
  if (kind === 'empirical') {
    return `Nothing is proven about any ${unit} against ${who}. Attacks were measured, and their `
      + 'result rests on a model of the attacker; a better attack may find more.';
  }
  const { epsilon, delta, condition } = item;
  return `For every single ${unit}, against ${who}: ${ADJACENCY[adjacency]}, the probability of `
    + `anything they can see changes by at most a factor of ${odds(epsilon)}, plus `
    + `${general(delta)} (epsilon ${general(epsilon)}, delta ${general(delta)}).`
    + (kind === 'dp-conditional' ? ` This holds only if: ${condition ?? ''}` : '');
}

function meaning({ epsilon, delta, kind, unit: protectedUnit }) {
  if (epsilon === null || delta === null || kind === 'empirical') return [];
  const unit = UNITS[protectedUnit], bounds = FALSE_ALARMS.map((rate) => Math.max(0, Math.min(1,
    Math.exp(Math.min(epsilon, 700)) * rate + delta,
    1 - Math.exp(-epsilon) * (1 - delta - rate))));
  const shares = bounds.map(percent), rates = FALSE_ALARMS.map((rate) => counted(1 / rate));
  const words = `An attacker who wrongly accuses at most 1 in ${listed(rates)} ${unit}s outside `
    + `the training data recognises at most ${listed(shares)} of those inside`;
  return [words + (new Set(shares).size > 1 ? ', respectively' : '')
    + (bounds.at(-1) > 0.95 ? ': these numbers alone rule out next to nothing' : '') + '.'];
}

/** Returns a list as "a, b or c", or one word where all are equal. */
function listed(words) {
  const head = words.slice(0, -1), last = words.at(-1);
  return head.every((word) => word === last) ? last : `${head.join(', ')} or ${last}`;
}

const counted = (number) => Math.round(number).toLocaleString('en-US');

/** Returns the factor by which probabilities can change, rounded up. */
function odds(epsilon) {
  if (epsilon > 30) return 'more than ten trillion';
  const factor = Math.exp(epsilon);
  return factor >= 100 ? counted(Math.ceil(factor)) : general(Math.ceil(factor * 100) / 100);
}

/** Returns a share in percent, rounded up because it is a bound. */
function percent(share) {
  const scale = share >= 0.01 && share <= 0.99 ? 10 : 1000;
  return `${general(Math.ceil(share * 100 * scale - 1e-9) / scale)} %`;
}

/** Returns a number with six digits, as Python's format "g" writes it. */
export function general(number) {
  const [digits, exponent] = number.toExponential(5).split('e').map(Number);
  const isPlain = number === 0 || (exponent >= -4 && exponent < 6);
  if (isPlain) return String(Number(number.toPrecision(6)));
  return `${digits}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
}
