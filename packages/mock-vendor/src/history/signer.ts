import { createHmac, randomBytes } from 'node:crypto';

/** What a vendor signs, so that it knows its own again: another vendor's values are not valid here. */
export interface Signer {
  /** In base64. */
  sign(text: string): string;
  isOwn(signature: unknown): boolean;
}

const NONCE_BYTES = 6;
const MAC_BYTES = 24;

/** Each vendor has its own key. A signature does not say what was signed: what it belongs to may be shortened since. */
export function createSigner(): Signer {
  const key = randomBytes(32);
  const macOf = (nonce: Buffer) => createHmac('sha256', key).update(nonce).digest().subarray(0, MAC_BYTES);
  return {
    sign(text) {
      const nonce = createHmac('sha256', key).update(text).digest().subarray(0, NONCE_BYTES);
      return Buffer.concat([nonce, macOf(nonce)]).toString('base64');
    },
    isOwn(signature) {
      if (typeof signature !== 'string') return false;
      const bytes = Buffer.from(signature, 'base64');
      if (bytes.length !== NONCE_BYTES + MAC_BYTES || bytes.toString('base64') !== signature) return false;
      return macOf(bytes.subarray(0, NONCE_BYTES)).equals(bytes.subarray(NONCE_BYTES));
    },
  };
}
