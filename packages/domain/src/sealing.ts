import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** How many bytes something sealed is longer than what it holds. */
export const SEAL_BYTES = IV_BYTES + TAG_BYTES;

/**
 * Seals bytes under a key of 32 bytes (NIST SP 800-38D): nonce, tag and ciphertext, in this order. With a context, such as
 * where it is kept, it opens only in the same one.
 */
export function seal(key: Buffer, plaintext: Buffer, context = ''): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES }).setAAD(
    Buffer.from(context),
  );
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), ciphertext]);
}

/** Undefined where the bytes were sealed under another key or for another context, or were changed since. */
export function unseal(key: Buffer, sealed: Buffer, context = ''): Buffer | undefined {
  try {
    // The length of the tag is fixed: a shorter one would be easier to guess.
    const decipher = createDecipheriv(ALGORITHM, key, sealed.subarray(0, IV_BYTES), {
      authTagLength: TAG_BYTES,
    })
      .setAAD(Buffer.from(context))
      .setAuthTag(sealed.subarray(IV_BYTES, SEAL_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(SEAL_BYTES)), decipher.final()]);
  } catch {
    return undefined;
  }
}
