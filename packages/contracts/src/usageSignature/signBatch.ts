import { createHash, sign } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema } from '../gen/weighbridge/v1/usage_pb.ts';
import { USAGE_BATCH_TAG } from '../usageCodec/fields.ts';
import type { UsageBatchFields } from '../usageCodec/readUsageBatch.ts';
import type { ProducerKey } from './producerKey.ts';

export const SIGNATURE_BYTES = 64;
/** The signature's field ends each signed batch: tag, length, signature. Signed is what comes before it. */
export const SIGNATURE_HEAD = Buffer.from([USAGE_BATCH_TAG.signature, SIGNATURE_BYTES]);
export const SIGNATURE_FIELD_BYTES = SIGNATURE_HEAD.length + SIGNATURE_BYTES;

/** A message of the usage stream, signed by its producer. Without a key, as older releases sent it. */
export function signBatch(
  batch: Omit<UsageBatchFields, 'publicKey' | 'signature'>,
  key: Pick<ProducerKey, 'publicKey' | 'privateKey'> | undefined,
): Uint8Array {
  const { producerId, epoch, shard, firstN, events } = batch;
  if (!key) {
    return toBinary(UsageBatchSchema, create(UsageBatchSchema, { producerId, epoch, shard, firstN, events }));
  }
  const { publicKey, privateKey } = key;
  const signed = toBinary(
    UsageBatchSchema,
    create(UsageBatchSchema, { producerId, epoch, shard, firstN, events, publicKey }),
  );
  return Buffer.concat([signed, SIGNATURE_HEAD, sign(null, signedDigest(signed), privateKey)]);
}

/** What is signed: a digest, so that a batch is hashed once and not copied; with its purpose, so that it is of use nowhere else. */
export function signedDigest(signed: Uint8Array): Buffer {
  return createHash('sha256').update('weighbridge.usage-batch.v1\0').update(signed).digest();
}
