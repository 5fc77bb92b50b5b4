import { createHash, randomBytes } from 'node:crypto';
import { SEAL_BYTES, seal, unseal } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';

/** A secret as it is stored, encrypted under the key-encryption key `kekId`. */
export interface Sealed {
  readonly bytes: Buffer;
  readonly kekId: string;
}

export interface Sealer {
  /** The key for new secrets; undefined if none is configured. */
  readonly currentKekId: string | undefined;
  /** Seals a secret for one place, such as a row's id; it opens only with the same place. Throws without a current key. */
  seal(secret: string, place: string): Sealed;
  /** The secret; undefined if its key-encryption key is not configured. Throws if the bytes were modified or the place differs. */
  open(sealed: Sealed, place: string): string | undefined;
  /** Seals the secret's data key again, under the current key. Undefined if its key-encryption key is not configured. */
  reseal(sealed: Sealed, place: string): Sealed | undefined;
}

export interface KeyEncryptionKeys {
  /** 32 bytes. */
  readonly current: Buffer | undefined;
  /** Earlier keys, which open but never seal. */
  readonly previous: readonly Buffer[];
}

export const KEK_BYTES = 32;

const FORMAT = 1;
/** A data key of 32 bytes, sealed. */
const WRAPPED_BYTES = SEAL_BYTES + 32;

/**
 * Envelope encryption (NIST SP 800-38D): each secret under its own data key, the data key under a key-encryption key. The
 * layout is a byte for the format, the sealed data key, and the sealed secret; each sealed part is IV, tag, ciphertext.
 */
export function createSealer({ current, previous }: KeyEncryptionKeys): Sealer {
  const keks = new Map([...previous, ...(current ? [current] : [])].map((kek) => [kekIdOf(kek), kek]));
  const currentKekId = current && kekIdOf(current);

  function wrap(dataKey: Buffer, place: string): { wrapped: Buffer; kekId: string } {
    if (!current || currentKekId === undefined) throw new Error('there is no key-encryption key');
    return { wrapped: seal(current, dataKey, `key ${currentKekId} ${place}`), kekId: currentKekId };
  }

  function unwrap({ bytes, kekId }: Sealed, place: string): Buffer | undefined {
    const kek = keks.get(kekId);
    if (!kek) return undefined;
    if (bytes[0] !== FORMAT) throw new Error('the sealed secret is of an unknown format');
    return opened(bytes.subarray(1, 1 + WRAPPED_BYTES), kek, `key ${kekId} ${place}`);
  }

  return {
    currentKekId,
    seal(secret, place) {
      const dataKey = randomBytes(32);
      const { wrapped, kekId } = wrap(dataKey, place);
      const body = seal(dataKey, Buffer.from(secret), `secret ${place}`);
      return { bytes: Buffer.concat([Buffer.of(FORMAT), wrapped, body]), kekId };
    },
    open(sealed, place) {
      const dataKey = unwrap(sealed, place);
      if (!dataKey) return undefined;
      return opened(sealed.bytes.subarray(1 + WRAPPED_BYTES), dataKey, `secret ${place}`).toString();
    },
    reseal(sealed, place) {
      const dataKey = unwrap(sealed, place);
      if (!dataKey) return undefined;
      const { wrapped, kekId } = wrap(dataKey, place);
      const body = sealed.bytes.subarray(1 + WRAPPED_BYTES);
      return { bytes: Buffer.concat([Buffer.of(FORMAT), wrapped, body]), kekId };
    },
  };
}

/** An id that does not reveal the key. */
function kekIdOf(kek: Buffer): string {
  return createHash('sha256')
    .update('weighbridge key-encryption key\0')
    .update(kek)
    .digest('hex')
    .slice(0, 16);
}

function opened(sealed: Buffer, key: Buffer, context: string): Buffer {
  return (
    unseal(key, sealed, context) ??
    raise(new Error('the sealed secret was modified, or sealed for another place'))
  );
}
