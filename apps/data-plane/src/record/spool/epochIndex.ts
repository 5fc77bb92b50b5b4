import type { FileSystem } from './fileSystem.ts';
import { RecordType, recordType, settledBytes, settledN, settledShard } from './recordFormat.ts';
import { type Segment, scanSegment } from './segment.ts';
import type { SettledEvent } from './types.ts';

/** What is known of an epoch: its files, oldest first, and its numbers by shard. */
export interface EpochIndex {
  readonly producerId: string;
  readonly epoch: string;
  readonly folder: string;
  readonly seed: number;
  readonly segments: Segment[];
  readonly lastN: bigint[];
  readonly ackedN: bigint[];
  /** Counts bytes that came on disk, or went. */
  readonly account: (bytes: number) => void;
}

export function numberOf(numbers: readonly bigint[], shard: number): bigint {
  const n = numbers[shard];
  if (n === undefined) throw new RangeError(`there is no shard ${shard}`);
  return n;
}

export function isAcked({ ackedN }: EpochIndex, segment: Segment): boolean {
  return segment.lastN.every((n, shard) => n <= numberOf(ackedN, shard));
}

/** Takes over what the ledger holds, never more than was settled; false where that is nothing new. */
export function advanceAcked(epoch: EpochIndex, shard: number, n: bigint): boolean {
  const last = numberOf(epoch.lastN, shard);
  const confirmed = n < last ? n : last;
  if (confirmed <= numberOf(epoch.ackedN, shard)) return false;
  epoch.ackedN[shard] = confirmed;
  return true;
}

/** A file that can't be deleted stays in the list: the next confirm tries again. */
export function removeSegment(files: FileSystem, epoch: EpochIndex, segment: Segment): void {
  files.remove(segment.path);
  epoch.segments.splice(epoch.segments.indexOf(segment), 1);
  epoch.account(-segment.bytes);
}

/** Where the next sequential read of a shard goes on. */
interface Cursor {
  readonly n: bigint;
  readonly segment: Segment;
  readonly offset: number;
}

export type ReadEvents = (shard: number, fromN: bigint, maxBytes: number) => Promise<readonly SettledEvent[]>;

/** Reads an epoch's events back; to read them one part after the other takes each file once per shard. */
export function createEventReader(files: FileSystem, epoch: EpochIndex): ReadEvents {
  const cursors = new Map<number, Cursor>();

  return async function read(shard, fromN, maxBytes) {
    const events: SettledEvent[] = [];
    let bytes = 0;
    let wanted = fromN;
    for (let isFull = false; !isFull; ) {
      const segment = segmentFor(epoch.segments, shard, wanted);
      if (!segment || (events.length > 0 && (segment.firstN[shard] ?? 0n) > wanted)) break;
      const cursor = cursors.get(shard);
      const from = cursor?.segment === segment && cursor.n <= wanted ? cursor.offset : 0;
      const before = wanted;
      const range = { from, to: segment.bytes, seed: epoch.seed };
      const visit = (record: Buffer, end: number): boolean => {
        if (recordType(record) !== RecordType.settle || settledShard(record) !== shard) return true;
        const n = settledN(record);
        if (n < wanted) return true;
        const event = settledBytes(record);
        const isNext = events.length === 0 || (n === wanted && bytes + event.length <= maxBytes);
        isFull = !isNext;
        if (isFull) return false;
        events.push({ shard, n, bytes: Buffer.from(event) });
        bytes += event.length;
        wanted = n + 1n;
        cursors.set(shard, { n: wanted, segment, offset: end });
        isFull = bytes >= maxBytes;
        return !isFull;
      };
      try {
        await scanSegment(files, segment.path, range, visit);
      } catch (error) {
        // Confirmed and deleted meanwhile.
        if (!epoch.segments.includes(segment)) continue;
        throw error;
      }
      // Damage: the index knows of more than can be read. What comes after it has to do.
      if (!isFull && wanted <= (segment.lastN[shard] ?? 0n)) {
        if (events.length > 0) break;
        wanted = (segment.lastN[shard] ?? 0n) + 1n;
      }
      if (!isFull && wanted === before) break;
    }
    return events;
  };
}

/** The one that holds the number, else the one that holds the next that there is. */
function segmentFor(segments: readonly Segment[], shard: number, n: bigint): Segment | undefined {
  let next: Segment | undefined;
  for (const segment of segments) {
    const first = segment.firstN[shard] ?? 0n;
    const last = segment.lastN[shard] ?? 0n;
    if (last < n) continue;
    if (first <= n) return segment;
    if (!next || first < (next.firstN[shard] ?? 0n)) next = segment;
  }
  return next;
}
