import { createHash, sign } from 'node:crypto';
import { isSigningProducer, type ProducerKey, producerIdOf, verifiesWith } from '@weighbridge/contracts';
import { USAGE_BATCH_TAG as TAG } from '../event/fields.ts';
import { ProtoWriter } from '../event/protoWriter.ts';
import type { UsageBatchFields } from '../event/readUsageBatch.ts';

const SIGNATURE_BYTES = 64;
/** The signature's field ends each signed batch: tag, length, signature. Signed is what comes before it. */
const SIGNATURE_HEAD = Buffer.from([TAG.signature, SIGNATURE_BYTES]);
const SIGNATURE_FIELD_BYTES = SIGNATURE_HEAD.length + SIGNATURE_BYTES;

/** What a batch carries. A signature for one purpose proves nothing of another. */
export type BatchPurpose = 'usage' | 'refusals';

/** A message of the usage stream, signed by its producer. Without a key, as older releases sent it. */
export function signBatch(
  batch: Omit<UsageBatchFields, 'publicKey' | 'signature'>,
  key: Pick<ProducerKey, 'publicKey' | 'privateKey'> | undefined,
  purpose: BatchPurpose = 'usage',
): Uint8Array {
  const unsigned = encode(batch, key?.publicKey);
  if (!key) return unsigned;
  return Buffer.concat([
    unsigned,
    SIGNATURE_HEAD,
    sign(null, signedDigest(unsigned, purpose), key.privateKey),
  ]);
}

/** The library takes several times as long, during which a proxy answers no one. Fields are in ascending order. */
function encode(
  { producerId, epoch, shard, firstN, events }: Omit<UsageBatchFields, 'publicKey' | 'signature'>,
  publicKey: Uint8Array | undefined,
): Uint8Array {
  const writer = new ProtoWriter().text(TAG.producerId, producerId);
  for (const event of events) writer.bytes(TAG.events, event);
  writer.text(TAG.epoch, epoch).count(TAG.shard, shard).bigint(TAG.firstN, firstN);
  if (publicKey) writer.bytes(TAG.publicKey, publicKey);
  return writer.finish();
}

/** What is signed: a digest, so that a batch is hashed once and not copied; with its purpose, so that it is of use nowhere else. */
function signedDigest(signed: Uint8Array, purpose: BatchPurpose): Buffer {
  return createHash('sha256').update(CONTEXTS[purpose]).update(signed).digest();
}

const CONTEXTS: Readonly<Record<BatchPurpose, string>> = {
  usage: 'weighbridge.usage-batch.v1\0',
  refusals: 'weighbridge.refusal-batch.v1\0',
};

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
