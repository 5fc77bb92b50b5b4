import { type CipherGCM, createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

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
  const sealer = new Sealer(key, context);
  const ciphertext = sealer.update(plaintext);
  return Buffer.concat([sealer.iv, sealer.end(), ciphertext]);
}

/** Seals in pieces what `unseal` takes in one: `iv`, then what `end` returns, then the pieces. */
export class Sealer {
  readonly iv: Buffer = randomBytes(IV_BYTES);
  readonly #cipher: CipherGCM;

  constructor(key: Buffer, context = '') {
    this.#cipher = createCipheriv(ALGORITHM, key, this.iv, { authTagLength: TAG_BYTES });
    this.#cipher.setAAD(Buffer.from(context));
  }

  update(plaintext: Uint8Array): Buffer {
    return this.#cipher.update(plaintext);
  }

  /** The tag, known after the last piece; always of the same size. */
  end(): Buffer {
    this.#cipher.final();
    return this.#cipher.getAuthTag();
  }
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
    const plaintext = decipher.update(sealed.subarray(SEAL_BYTES));
    // Adds no bytes in this mode; throws if the tag does not fit.
    decipher.final();
    return plaintext;
  } catch {
    return undefined;
  }
}
