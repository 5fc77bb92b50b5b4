import { isSigningProducer, producerIdOf, verifiesWith } from '@weighbridge/contracts';
import type { UsageBatchFields } from '../event/readUsageBatch.ts';
import {
  type BatchPurpose,
  SIGNATURE_BYTES,
  SIGNATURE_FIELD_BYTES,
  SIGNATURE_HEAD,
  signedDigest,
} from './signBatch.ts';

/**
 * Who sent a batch. `signed`: the producer that it names. `unsigned`: a proxy of release 0.1.0, or someone who says so: it counts only
 * if the control plane knows of that proxy (docs/adr/0029).
 * `forged`: not the producer that it names, or the batch was changed.
 */
export type BatchProof = 'signed' | 'unsigned' | 'forged';

/** `batch` as read from `payload`. */
export function batchProof(
  payload: Uint8Array,
  { producerId, publicKey, signature }: Pick<UsageBatchFields, 'producerId' | 'publicKey' | 'signature'>,
  purpose: BatchPurpose = 'usage',
): BatchProof {
  if (signature.length === 0 && publicKey.length === 0) return 'unsigned';
  if (!isSigningProducer(producerId)) return 'forged';
  if (signature.length !== SIGNATURE_BYTES || producerIdOf(publicKey) !== producerId) return 'forged';
  const end = payload.length - SIGNATURE_FIELD_BYTES;
  // A field of that name elsewhere, or a second one, would leave bytes behind it that no one signed.
  if (end < 0 || !SIGNATURE_HEAD.equals(payload.subarray(end, end + SIGNATURE_HEAD.length))) return 'forged';
  const sent = payload.subarray(payload.length - SIGNATURE_BYTES);
  const digest = signedDigest(payload.subarray(0, end), purpose);
  return verifiesWith(publicKey, digest, sent) ? 'signed' : 'forged';
}
