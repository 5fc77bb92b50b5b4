import { create, toBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema } from '@weighbridge/contracts';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';

export const MAX_BATCH_EVENTS = 256;
export const MAX_BATCH_BYTES = 512 * 1024;

/** Events of one epoch and shard, the numbers without gaps; at least one. */
export type Batch = readonly [SettledEvent, ...SettledEvent[]];

/** As many contiguous events from the front as one message holds; undefined where there are none. One is never too large. */
export function nextBatch(events: readonly SettledEvent[]): Batch | undefined {
  const [first, ...others] = events.slice(0, MAX_BATCH_EVENTS);
  if (!first) return undefined;
  const batch: [SettledEvent, ...SettledEvent[]] = [first];
  let bytes = first.bytes.length;
  for (const event of others) {
    bytes += event.bytes.length;
    if (bytes > MAX_BATCH_BYTES) break;
    batch.push(event);
  }
  return batch;
}

export function lastNOf(batch: Batch): bigint {
  return batch[0].n + BigInt(batch.length) - 1n;
}

/** The message for the stream. The events go in as the bytes that they are. */
export function encodeBatch({ producerId, epoch }: SpoolEpoch, batch: Batch): Uint8Array {
  const [{ shard, n }] = batch;
  const events = batch.map(({ bytes }) => bytes);
  return toBinary(
    UsageBatchSchema,
    create(UsageBatchSchema, { producerId, epoch, shard, firstN: n, events }),
  );
}
