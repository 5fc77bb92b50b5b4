import { join } from 'node:path';
import { USAGE_SHARDS } from '@weighbridge/contracts';

/**
 * One file of an epoch, and what memory holds of it. Its life:
 *
 *   current → sealed → replaced → deleted
 *
 * current   records are appended; at most one segment of an epoch is current
 * sealed    it is full, or a write to it failed; the file is cut to `bytes` and never written again
 * replaced  a later segment begins with copies of all attempts that were open (synced, if `sync` is `disk`)
 * deleted   it is replaced and the ledger acked all its events
 */
export interface Segment {
  /** Its number among the epoch's segments, from 1. */
  readonly seq: number;
  readonly path: string;
  /** The part of the file that counts. */
  bytes: number;
  /** Sealing could not cut the file. Its valid length stands in the next segment's header, which must then stay too. */
  hasUncutTail: boolean;
  /** By shard, the first and last event numbers in it; 0 if it has none. */
  readonly firstN: bigint[];
  readonly lastN: bigint[];
}

/** A segment whose file is open: it is current, or waits for a sync. */
export interface OpenSegment {
  readonly segment: Segment;
  readonly file: number;
  /** The part of the file that is known to be on disk. */
  syncedBytes: number;
}

export function newSegment(folder: string, seq: number): Segment {
  const path = join(folder, `${String(seq).padStart(10, '0')}.spool`);
  return { seq, path, bytes: 0, hasUncutTail: false, firstN: perShard(0n), lastN: perShard(0n) };
}

/** Undefined if the file is not a segment. */
export function segmentSeq(fileName: string): number | undefined {
  const [, seq] = /^(\d{10})\.spool$/.exec(fileName) ?? [];
  return seq === undefined ? undefined : Number(seq);
}

export function perShard<T>(value: T): T[] {
  return Array.from({ length: USAGE_SHARDS }, () => value);
}

/** Widens the segment's number range of a shard to include `n`. */
export function indexSettled(segment: Segment, shard: number, n: bigint): void {
  const first = segment.firstN[shard] ?? 0n;
  if (first === 0n || n < first) segment.firstN[shard] = n;
  if (n > (segment.lastN[shard] ?? 0n)) segment.lastN[shard] = n;
}
