import { join } from 'node:path';
import type { ProducerKey } from '@weighbridge/contracts';
import type { FileSystem } from './fileSystem.ts';

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
  /** By shard, the first and last event numbers in it; 0 or absent if it has none. */
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
  return { seq, path, bytes: 0, hasUncutTail: false, firstN: [], lastN: [] };
}

/** Undefined if the file is not a segment. */
export function segmentSeq(fileName: string): number | undefined {
  const [, seq] = /^(\d{10})\.spool$/.exec(fileName) ?? [];
  return seq === undefined ? undefined : Number(seq);
}

/** The numbers of an epoch that has no events. */
export function noNumbers(shards: number): bigint[] {
  return Array.from({ length: shards }, () => 0n);
}

/** Adds the shards that are missing up to this number of them. */
export function widen(numbers: bigint[], shards: number): void {
  while (numbers.length < shards) numbers.push(0n);
}

/** Widens the segment's number range of a shard to include `n`. */
export function indexSettled(segment: Segment, shard: number, n: bigint): void {
  widen(segment.firstN, shard + 1);
  widen(segment.lastN, shard + 1);
  const first = segment.firstN[shard] ?? 0n;
  if (first === 0n || n < first) segment.firstN[shard] = n;
  if (n > (segment.lastN[shard] ?? 0n)) segment.lastN[shard] = n;
}

/** What memory holds of an epoch: its segments, oldest first, and its event numbers by shard. */
export interface EpochIndex {
  readonly producerId: string;
  /** Undefined if the producer is of an older release, or its key is lost. */
  readonly key: ProducerKey | undefined;
  readonly epoch: string;
  readonly folder: string;
  /** Starting value of the records' checksums; see recordFormat.ts. */
  readonly seed: number;
  readonly segments: Segment[];
  /** As long as the epoch has shards, as is `ackedN`. */
  readonly lastN: bigint[];
  readonly ackedN: bigint[];
  /** Called with the bytes that a write added on disk, or a deletion removed (negative). */
  readonly addToDiskUse: (bytes: number) => void;
}

export function numberOf(numbers: readonly bigint[], shard: number): bigint {
  const n = numbers[shard];
  if (n === undefined) throw new RangeError(`shard ${shard} does not exist`);
  return n;
}

/** Raises each number to its counterpart if that is higher. */
export function raiseNumbers(numbers: bigint[], to: readonly bigint[]): void {
  widen(numbers, to.length);
  for (const [shard, n] of to.entries()) if (n > (numbers[shard] ?? 0n)) numbers[shard] = n;
}

export function isAcked({ ackedN }: EpochIndex, segment: Segment): boolean {
  return segment.lastN.every((n, shard) => n <= numberOf(ackedN, shard));
}

/** Records an ack, capped at the last settled number. Returns false if it brings nothing new. */
export function advanceAcked(index: EpochIndex, shard: number, n: bigint): boolean {
  const last = numberOf(index.lastN, shard);
  const acked = n < last ? n : last;
  if (acked <= numberOf(index.ackedN, shard)) return false;
  index.ackedN[shard] = acked;
  return true;
}

/** If the deletion throws, the segment stays in the list and the next ack tries again. */
export function removeSegment(files: FileSystem, index: EpochIndex, segment: Segment): void {
  files.remove(segment.path);
  index.segments.splice(index.segments.indexOf(segment), 1);
  index.addToDiskUse(-segment.bytes);
}
