import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  verify,
} from 'node:crypto';

// A producer's id is a hash of its public key. So a batch proves by itself that its producer sent it: no one needs a list of
// keys, and no other producer can take an id, before or after its owner.

/** The key pair of a producer. */
export interface ProducerKey {
  /** A UUIDv8. */
  readonly producerId: string;
  /** 32 bytes. */
  readonly publicKey: Buffer;
  readonly privateKey: KeyObject;
}

/** Changing it changes every id. */
const ID_CONTEXT = 'weighbridge.producer-id.v1\0';

/** A new key, and the text to store it: PKCS #8 in PEM. */
export function newProducerKey(): { readonly key: ProducerKey; readonly text: string } {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { key: keyOf(privateKey), text: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** Undefined if the text is no such key. The text is in no error, since it is a secret. */
export function readProducerKey(text: string): ProducerKey | undefined {
  try {
    const privateKey = createPrivateKey(text);
    return privateKey.asymmetricKeyType === 'ed25519' ? keyOf(privateKey) : undefined;
  } catch {
    return undefined;
  }
}

function keyOf(privateKey: KeyObject): ProducerKey {
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' });
  const publicKey = Buffer.from(x, 'base64url');
  return { producerId: producerIdOf(publicKey), publicKey, privateKey };
}

/** 122 bits of a SHA-256, as a UUIDv8 (https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-8). */
export function producerIdOf(publicKey: Uint8Array): string {
  const id = createHash('sha256').update(ID_CONTEXT).update(publicKey).digest().subarray(0, 16);
  id[6] = 0x80 | ((id[6] ?? 0) & 0x0f);
  id[8] = 0x80 | ((id[8] ?? 0) & 0x3f);
  const hex = id.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Whether batches of this producer are signed. Older releases made other versions of UUIDs, and signed nothing. */
export function isSigningProducer(producerId: string): boolean {
  return producerId[14] === '8';
}

/** Parsed keys by their bytes; a proxy's key stays the same. Emptied when full: anyone can make up keys. */
const parsedKeys = new Map<string, KeyObject>();
const MAX_PARSED_KEYS = 1_000;

/** Whether a digest was signed with the key of these 32 bytes. */
export function verifiesWith(publicKey: Uint8Array, digest: Uint8Array, signature: Uint8Array): boolean {
  try {
    return verify(null, digest, parsedKey(publicKey), signature);
  } catch {
    // 32 bytes that are no point of the curve.
    return false;
  }
}

function parsedKey(publicKey: Uint8Array): KeyObject {
  const x = Buffer.from(publicKey).toString('base64url');
  const known = parsedKeys.get(x);
  if (known) return known;
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  if (parsedKeys.size >= MAX_PARSED_KEYS) parsedKeys.clear();
  parsedKeys.set(x, key);
  return key;
}
