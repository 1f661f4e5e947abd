// DSSE v1 envelopes and the keys that are believed. Algorithm, models and roles of a key come from
// the trust store alone, never from an envelope.
import { createHash, createPublicKey, verify } from 'node:crypto';
import { check, decodeBase64, need, parseStrict } from './reading.mjs';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

const TYPE = 'application/vnd.in-toto+json';
const PRIME = 2n ** 255n - 19n;
const ORDER_EIGHT = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
const SMALL_ORDER = [0n, 1n, PRIME - 1n, ORDER_EIGHT, PRIME - ORDER_EIGHT];
const DER_HEADS = { // what stands before the raw bytes of a public key
  ed25519: '302a300506032b6570032100',
  'ecdsa-p256': '3059301306072a8648ce3d020106082a8648ce3d030107034200',
};

/** Returns the keys of a trust store; one under which anything verifies refuses the whole store. */
export function readKeys(bytes) {
  const store = parseStrict(bytes, 'BAD_TRUST_STORE');
  check(store, 'trust store', 'the trust store');
  const ids = new Set(store.keys.map((key) => key.keyid));
  need(ids.size === store.keys.length, 'BAD_TRUST_STORE', 'one key twice');
  return store.keys.map(readKey);
}

function readKey({ keyid, algorithm, publicKey, name, models, roles }) {
  const raw = decodeBase64(publicKey, 'BAD_TRUST_STORE');
  need(sha256(raw) === keyid, 'BAD_TRUST_STORE', `another key id than that of ${name}`);
  need(roles.length > 0 && new Set(roles).size === roles.length, 'BAD_TRUST_STORE', 'roles');
  need(isSound(raw, algorithm), 'WEAK_KEY', `the key of ${name}, which proves nothing`);
  const der = Buffer.concat([Buffer.from(DER_HEADS[algorithm], 'hex'), raw]);
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
  const digest = algorithm === 'ed25519' ? null : 'sha256';
  return { keyid, models, roles, made: (sig, message) => verify(digest, message, key, sig) };
}

function isSound(raw, algorithm) {
  if (algorithm !== 'ed25519') return raw.length === 65 && raw[0] === 4;
  const y = BigInt(`0x${Buffer.from(raw).reverse().toString('hex')}`) % 2n ** 255n;
  return raw.length === 32 && y < PRIME && !SMALL_ORDER.includes(y);
}

/** Returns the payload of an envelope and those of the keys that signed it. */
export function openEnvelope(line, keys, mostBytes = 512 * 1024) {
  const code = 'BAD_ENVELOPE';
  const envelope = parseStrict(line, code, mostBytes);
  need(envelope?.payloadType === TYPE, code, 'another payload type');
  need(Array.isArray(envelope.signatures) && envelope.signatures.length <= 16, code, 'signatures');
  const payload = decodeBase64(envelope.payload, code);
  const message = Buffer.concat([Buffer.from(`DSSEv1 28 ${TYPE} ${payload.length} `), payload]);
  const found = envelope.signatures.map((item) =>
    ({ keyid: item?.keyid ?? '', sig: decodeBase64(item?.sig, code) }));
  const signed = (key) => found.some(({ keyid, sig }) =>
    ['', key.keyid].includes(keyid) && key.made(sig, message));
  return { payload, signers: keys.filter(signed) };
}
