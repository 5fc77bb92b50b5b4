import type { EpochIndex, Segment } from './epochIndex.ts';
import type { FileSystem } from './fileSystem.ts';
import { RecordType, recordType, settledBytes, settledN, settledShard } from './recordFormat.ts';
import { scanSegment } from './scanSegment.ts';
import type { SettledEvent, SpoolEpoch } from './types.ts';

/** Where the next sequential read of a shard continues. */
interface Cursor {
  readonly n: bigint;
  readonly segment: Segment;
  readonly offset: number;
}

/** Reads an epoch's events back. Sequential reads scan each file once per shard. */
export function createEventReader(files: FileSystem, epoch: EpochIndex): SpoolEpoch['read'] {
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
        const fits = events.length === 0 || (n === wanted && bytes + event.length <= maxBytes);
        isFull = !fits;
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
        // An ack deleted the segment meanwhile.
        if (!epoch.segments.includes(segment)) continue;
        throw error;
      }
      // Damage: events that the index lists can't be read. Continue after the segment.
      if (!isFull && wanted <= (segment.lastN[shard] ?? 0n)) {
        if (events.length > 0) break;
        wanted = (segment.lastN[shard] ?? 0n) + 1n;
      }
      if (!isFull && wanted === before) break;
    }
    return events;
  };
}

/** The segment that holds number `n`, else the one that holds the next number that exists. */
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
