import type { ProducerKey } from '@weighbridge/contracts';
import type { FileSystem } from './fileSystem.ts';
import type { Segment } from './segment.ts';

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
