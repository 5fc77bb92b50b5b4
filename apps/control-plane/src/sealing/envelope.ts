import { createHash, randomBytes } from 'node:crypto';
import { SEAL_BYTES, seal, unseal } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';

/** A secret as it is kept: useless without the key-encryption key that `kekId` names. */
interface Sealed {
  readonly bytes: Buffer;
  readonly kekId: string;
}

export interface Sealer {
  /** What new secrets are sealed under; undefined where the deployment gave no key. */
  readonly currentKekId: string | undefined;
  /** Seals a secret for one place, such as a row's id: it opens nowhere else. Throws where there is no current key. */
  seal(secret: string, place: string): Sealed;
  /** The secret; undefined where its key-encryption key is not here. Throws where the bytes or the place are not what was sealed. */
  open(sealed: Sealed, place: string): string | undefined;
  /** The same secret under the current key: only its data key is sealed anew. Undefined where it can't be opened here. */
  reseal(sealed: Sealed, place: string): Sealed | undefined;
}

export interface KeyEncryptionKeys {
  /** 32 bytes. */
  readonly current: Buffer | undefined;
  /** What `current` replaced: they open, and never seal. */
  readonly previous: readonly Buffer[];
}

export const KEK_BYTES = 32;

const FORMAT = 1;
/** A data key of 32 bytes, sealed. */
const WRAPPED_BYTES = SEAL_BYTES + 32;

/**
 * Envelope encryption (NIST SP 800-38D): each secret under a data key of its own, the data key under a key-encryption key.
 * The layout is a byte for the format, the sealed data key, the sealed secret; each sealed part is IV, tag, ciphertext.
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

/** Names a key-encryption key without telling it. */
function kekIdOf(kek: Buffer): string {
  return createHash('sha256')
    .update('weighbridge key-encryption key\0')
    .update(kek)
    .digest('hex')
    .slice(0, 16);
}

function opened(sealed: Buffer, key: Buffer, context: string): Buffer {
  return (
    unseal(key, sealed, context) ?? raise(new Error('the sealed secret was changed, or is of another place'))
  );
}
