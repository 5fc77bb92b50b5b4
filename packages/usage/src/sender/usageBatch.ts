import { signBatch } from '../signature/signBatch.ts';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';

export const MAX_BATCH_EVENTS = 256;
export const MAX_BATCH_BYTES = 512 * 1024;

/** At least one event of one epoch and shard, numbered without gaps. */
export type Batch = readonly [SettledEvent, ...SettledEvent[]];

/** The leading events that fit in one message, at least one; undefined if there are none. */
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

/** The signed stream message. The events are embedded as they are, without decoding. */
export function encodeBatch({ producerId, epoch, key }: SpoolEpoch, batch: Batch): Uint8Array {
  const [{ shard, n }] = batch;
  const events = batch.map(({ bytes }) => bytes);
  return signBatch({ producerId, epoch, shard, firstN: n, events }, key);
}
