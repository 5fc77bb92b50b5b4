import type { FileSystem } from './fileSystem.ts';
import { claimedBytes, FRAME_BYTES, isIntact } from './recordFormat.ts';

export interface ScanRange {
  readonly from: number;
  readonly to: number;
  readonly seed: number;
}

export interface ScanResult {
  /** The end of the last intact record. */
  readonly goodBytes: number;
  /** Damaged places that are followed by intact records. */
  readonly damaged: number;
}

const CHUNK_BYTES = 256 * 1024;

/**
 * Visits the intact records of a part of a segment, in order, until a visit returns false. The record is a view that is
 * valid during the visit only. Bytes that are no record are skipped one by one.
 */
export async function scanSegment(
  files: FileSystem,
  path: string,
  range: ScanRange,
  visit: (record: Buffer, end: number) => boolean,
): Promise<ScanResult> {
  const file = await files.openToRead(path);
  try {
    let buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    let to = range.to;
    // The buffer holds `filled` bytes of the file from `base` on; the scan is at `base + at`.
    let base = range.from;
    let filled = 0;
    let at = 0;
    let goodBytes = range.from;
    let damaged = 0;
    let isSkipping = false;
    for (;;) {
      const left = to - base - at;
      if (left < FRAME_BYTES) break;
      const claimed = filled - at < FRAME_BYTES ? FRAME_BYTES : claimedBytes(buffer, at, left);
      if (claimed > filled - at || filled - at < FRAME_BYTES) {
        base += at;
        at = 0;
        if (claimed > buffer.length) buffer = Buffer.allocUnsafe(claimed);
        filled = await readFully(file, buffer, base, Math.min(buffer.length, to - base));
        // The file is shorter than the range.
        if (filled < Math.min(buffer.length, to - base)) to = base + filled;
        continue;
      }
      const record = claimed > 0 ? buffer.subarray(at, at + claimed) : undefined;
      if (!record || !isIntact(record, range.seed)) {
        isSkipping = true;
        at++;
        continue;
      }
      if (isSkipping) damaged++;
      isSkipping = false;
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
