import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const ALGORITHM = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** The overhead of sealing. */
export const SEAL_BYTES = IV_BYTES + TAG_BYTES;

/**
 * Encrypts with AES-256-GCM (NIST SP 800-38D) under a key of 32 bytes. Returns nonce, tag and ciphertext, in this order. The
 * context, such as a row's id, is authenticated: `unseal` needs the same one.
 */
export function seal(key: Buffer, plaintext: Buffer, context = ''): Buffer {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES }).setAAD(
    Buffer.from(context),
  );
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), ciphertext]);
}

/** Undefined if the key or the context is another, or the bytes were modified. */
export function unseal(key: Buffer, sealed: Buffer, context = ''): Buffer | undefined {
  try {
    // A fixed tag length: a shorter tag would be easier to guess.
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
