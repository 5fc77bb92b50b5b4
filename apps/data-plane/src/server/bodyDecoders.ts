import type { IncomingHttpHeaders } from 'node:http';
import type { Transform } from 'node:stream';
import zlib, { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';

export type BodyEncoding = 'gzip' | 'deflate' | 'br' | 'zstd';
type CreateZstd = (options: { readonly params: Readonly<Record<number, number>> }) => Transform;

/** Undefined before Node 22.15. */
const { createZstdDecompress } = zlib as unknown as { readonly createZstdDecompress?: CreateZstd };

/** The content codings in which a body may come (RFC 9110, section 8.4.1): what this version of Node decodes. */
export const BODY_ENCODINGS: readonly BodyEncoding[] = [
  'gzip',
  'deflate',
  'br',
  ...(createZstdDecompress ? (['zstd'] as const) : []),
];

/** The coding of a body; undefined if it is plain. Other codings were refused before. */
export function bodyEncoding(headers: IncomingHttpHeaders): BodyEncoding | undefined {
  const name = headers['content-encoding']?.toLowerCase().replace(/^x-(?=gzip$)/, '');
  return BODY_ENCODINGS.find((encoding) => encoding === name);
}

/** A decoder, and how much memory it takes: mostly for what the body may repeat. */
export interface BodyDecoder {
  readonly stream: Transform;
  readonly bytes: number;
}

/** Besides what a body may repeat; of gzip and deflate, that too. */
const DECODER_BYTES = 64 * 1024;

/** The decoder for a body that begins with `start`, which says how much memory it takes. It accepts no body that takes more. */
export function bodyDecoder(encoding: BodyEncoding, start: Buffer): BodyDecoder {
  if (encoding === 'gzip') return { stream: createGunzip(), bytes: DECODER_BYTES };
  if (encoding === 'deflate') return { stream: createInflate(), bytes: DECODER_BYTES };
  if (encoding === 'br') {
    return { stream: createBrotliDecompress(), bytes: DECODER_BYTES + 2 ** brotliWindowLog(start) };
  }
  const windowLog = Math.min(Math.max(zstdWindowLog(start), LEAST_ZSTD_LOG), MOST_ZSTD_LOG);
  const stream = createZstdDecompress?.({ params: { [WINDOW_LOG_MAX]: windowLog } });
  if (!stream) throw new Error('this version of Node does not decode zstd');
  return { stream, bytes: DECODER_BYTES + ZSTD_BLOCK_BYTES + 2 ** windowLog };
}

/** How far back a brotli stream may refer, as a power of two: in its first bits (RFC 7932, section 9.1). */
export function brotliWindowLog([first = 0]: Buffer): number {
  if ((first & 1) === 0) return 16;
  const most = (first >> 1) & 7;
  if (most > 0) return 17 + most;
  const least = (first >> 4) & 7;
  return least === 0 ? 17 : 8 + least;
}

/** `ZSTD_d_windowLogMax` of zstd.h, and its least value. */
const WINDOW_LOG_MAX = 100;
const LEAST_ZSTD_LOG = 10;
/** 8 MiB: no sender may require more of a receiver (RFC 9659, section 3). */
const MOST_ZSTD_LOG = 23;
const ZSTD_MAGIC = 0xfd2fb528;
/** Two blocks are held beside the window. */
const ZSTD_BLOCK_BYTES = 256 * 1024;
const CONTENT_SIZE_BYTES = [1, 2, 4, 8];
const DICTIONARY_ID_BYTES = [0, 1, 2, 4];

/** The same of a zstd frame: by its header (RFC 8878, section 3.1.1.1), or the most that is allowed if it is not there whole. */
export function zstdWindowLog(start: Buffer): number {
  if (start.length < 6 || start.readUInt32LE(0) !== ZSTD_MAGIC) return MOST_ZSTD_LOG;
  const descriptor = start[4] ?? 0;
  if ((descriptor & 0x20) === 0) {
    const window = start[5] ?? 0;
    // Eighths above a power of two take the next one.
    return 10 + (window >> 3) + ((window & 7) === 0 ? 0 : 1);
  }
  const at = 5 + (DICTIONARY_ID_BYTES[descriptor & 3] ?? 0);
  const length = CONTENT_SIZE_BYTES[descriptor >> 6] ?? 8;
  if (length === 8 || start.length < at + length) return MOST_ZSTD_LOG;
  const size = start.readUIntLE(at, length) + (length === 2 ? 256 : 0);
  return Math.ceil(Math.log2(Math.max(size, 1)));
}
