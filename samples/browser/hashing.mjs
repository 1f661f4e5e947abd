// Feature hashing, version 1: the contract in hushdoc.hashing, one item after the other.

const TOKEN = 0x100, CLUSTER = 0x200, BIGRAM = 0x300, SKIP_GRAM = 0x400, ITEM_IS_SECOND = 1;
const MAX_SKIPPED = 4;
const rotate = (x, bits) => (x << bits) | (x >>> (32 - bits));

function finalized(hash) {
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Returns MurmurHash3 (x86, 32 bits) of bytes. */
export function murmur(bytes, seed) {
  const scrambled = (block) => Math.imul(rotate(Math.imul(block, 0xcc9e2d51), 15), 0x1b873593);
  const whole = bytes.length & ~3;
  let hash = seed, last = 0;
  for (let i = 0; i < whole; i += 4) {
    const block = bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24);
    hash = (Math.imul(rotate(hash ^ scrambled(block), 13), 5) + 0xe6546b64) | 0;
  }
  for (let i = bytes.length - 1; i >= whole; i--) last = (last << 8) | bytes[i];
  return finalized(hash ^ scrambled(last) ^ bytes.length);
}

/** Returns the hash of a token. */
export function tokenHash(token, { lowercase, seed }) {
  return murmur(new TextEncoder().encode(lowercase ? token.toLowerCase() : token), seed);
}

/** Returns the hash of a feature of one token (or cluster), or of two. */
function featureHash(first, second, template, seed) {
  const constant = (Math.imul(template, 0xc2b2ae3d) + seed) | 0;
  const mixed = (rotate(Math.imul(second, 0x85ebca77), 15) + constant) | 0;
  return finalized(Math.imul(first, 0x9e3779b1) ^ mixed);
}

/** Returns a hash's share of the rows; exact, though hash * rows has up to 63 bits. */
function rowOf(hash, rows) {
  const low = Math.floor(((hash & 0xffff) * rows) / 65536);
  return Math.floor(((hash >>> 16) * rows + low) / 65536);
}

/**
 * Returns the rows of the table for each item of a sentence, each row once.
 *
 * `hashes` are its tokens', `groups` their clusters (-1: none), or null where the scheme has none.
 */
export function rowsOfItems(hashes, groups, scheme) {
  const size = hashes.length, distances = scheme.bigrams ? [[1, BIGRAM]] : [];
  for (let d = 2; scheme.skip_grams && d <= MAX_SKIPPED + 1; d++) distances.push([d, SKIP_GRAM]);
  const row = (first, second, template) =>
    rowOf(featureHash(first, second, template, scheme.seed), scheme.rows);
  const alone = (place, offset) => {
    const found = [row(hashes[place], 0, TOKEN | (offset & 0xff))];
    const isKnown = groups !== null && groups[place] >= 0;
    return isKnown ? [...found, row(groups[place], 0, CLUSTER | (offset & 0xff))] : found;
  };
  const pair = (first, second, template) =>
    (first >= 0 && second < size ? [row(hashes[first], hashes[second], template)] : []);
  if (scheme.level === 'sentence') {
    const all = hashes.flatMap((_, place) => [...alone(place, 0),
      ...distances.flatMap(([distance, number]) => pair(place - distance, place, number))]);
    return [[...new Set(all)].sort((a, b) => a - b)];
  }
  return hashes.map((_, place) => {
    const found = [];
    for (let offset = -scheme.window; offset <= scheme.window; offset++) {
      const there = place + offset;
      if (there >= 0 && there < size) found.push(...alone(there, offset));
    }
    for (const [distance, number] of distances) {
      found.push(...pair(place, place + distance, number));
      found.push(...pair(place - distance, place, number | ITEM_IS_SECOND));
    }
    return [...new Set(found)];
  });
}
