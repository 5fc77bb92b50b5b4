import { createHash, sign } from 'node:crypto';
import type { ProducerKey } from '@weighbridge/contracts';
import { USAGE_BATCH_TAG as TAG } from '../event/fields.ts';
import { ProtoWriter } from '../event/protoWriter.ts';
import type { UsageBatchFields } from '../event/readUsageBatch.ts';

export const SIGNATURE_BYTES = 64;
/** The signature's field ends each signed batch: tag, length, signature. Signed is what comes before it. */
export const SIGNATURE_HEAD = Buffer.from([TAG.signature, SIGNATURE_BYTES]);
export const SIGNATURE_FIELD_BYTES = SIGNATURE_HEAD.length + SIGNATURE_BYTES;

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
export function signedDigest(signed: Uint8Array, purpose: BatchPurpose): Buffer {
  return createHash('sha256').update(CONTEXTS[purpose]).update(signed).digest();
}

const CONTEXTS: Readonly<Record<BatchPurpose, string>> = {
  usage: 'weighbridge.usage-batch.v1\0',
  refusals: 'weighbridge.refusal-batch.v1\0',
};
