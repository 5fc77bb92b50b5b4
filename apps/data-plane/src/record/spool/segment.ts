import { join } from 'node:path';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { FileSystem } from './fileSystem.ts';
import { claimedBytes, FRAME_BYTES, isIntact } from './recordFormat.ts';

/** One file of an epoch; all that is kept of it in memory. */
export interface Segment {
  readonly seq: number;
  readonly path: string;
  /** How much of it counts. */
  bytes: number;
  /** There may be more in the file; how much counts stands in the next one, which has to stay as long. */
  isUncut: boolean;
  /** By shard, the first and last numbers in it; 0 where it has none. */
  readonly firstN: bigint[];
  readonly lastN: bigint[];
}

/** A segment that is being written, or waits for being on disk. */
export interface WrittenSegment {
  readonly segment: Segment;
  readonly file: number;
  /** How much of it is on disk for sure. */
  syncedBytes: number;
}

export function newSegment(folder: string, seq: number): Segment {
  const path = join(folder, `${String(seq).padStart(10, '0')}.spool`);
  return { seq, path, bytes: 0, isUncut: false, firstN: perShard(0n), lastN: perShard(0n) };
}

/** Undefined for a file that is no segment. */
export function segmentSeq(fileName: string): number | undefined {
  const [, seq] = /^(\d{10})\.spool$/.exec(fileName) ?? [];
  return seq === undefined ? undefined : Number(seq);
}

export function perShard<T>(value: T): T[] {
  return Array.from({ length: USAGE_SHARDS }, () => value);
}

export function noteSettled(segment: Segment, shard: number, n: bigint): void {
  const first = segment.firstN[shard] ?? 0n;
  if (first === 0n || n < first) segment.firstN[shard] = n;
  if (n > (segment.lastN[shard] ?? 0n)) segment.lastN[shard] = n;
}

export interface ScanRange {
  readonly from: number;
  readonly to: number;
  readonly seed: number;
}

export interface Scanned {
  /** Where the last good record ends. */
  readonly goodBytes: number;
  /** Places with something else than records, and records after them. */
  readonly damaged: number;
}

const CHUNK_BYTES = 256 * 1024;

/**
 * Visits the good records of a part of a segment, in order, until a visit returns false. A record is a view that is good
 * during its visit only. What is no record is passed over byte by byte up to the next one.
 */
export async function scanSegment(
  files: FileSystem,
  path: string,
  range: ScanRange,
  visit: (record: Buffer, end: number) => boolean,
): Promise<Scanned> {
  const file = await files.openToRead(path);
  try {
    let buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    let to = range.to;
    // What the buffer holds: `filled` bytes from `base` in the file; the scan is at `at` in it.
    let base = range.from;
    let filled = 0;
    let at = 0;
    let goodBytes = range.from;
    let damaged = 0;
    let isPassingOver = false;
    for (;;) {
      const left = to - base - at;
      if (left < FRAME_BYTES) break;
      const claimed = filled - at < FRAME_BYTES ? FRAME_BYTES : claimedBytes(buffer, at, left);
      if (claimed > filled - at || filled - at < FRAME_BYTES) {
        base += at;
        at = 0;
        if (claimed > buffer.length) buffer = Buffer.allocUnsafe(claimed);
        filled = await readFully(file, buffer, base, Math.min(buffer.length, to - base));
        // Shorter than thought.
        if (filled < Math.min(buffer.length, to - base)) to = base + filled;
        continue;
      }
      const record = claimed > 0 ? buffer.subarray(at, at + claimed) : undefined;
      if (!record || !isIntact(record, range.seed)) {
        isPassingOver = true;
        at++;
        continue;
      }
      if (isPassingOver) damaged++;
      isPassingOver = false;
      at += claimed;
      goodBytes = base + at;
      if (!visit(record, goodBytes)) break;
    }
    return { goodBytes, damaged };
  } finally {
    await file.close();
  }
}

interface Readable {
  read(into: Buffer, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
}

async function readFully(file: Readable, into: Buffer, position: number, length: number): Promise<number> {
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(into, done, length - done, position + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return done;
}
