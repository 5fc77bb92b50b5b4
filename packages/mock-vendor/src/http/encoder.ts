import { brotliCompressSync, constants, crc32, deflateRawSync } from 'node:zlib';

/** Encodes a body in its content encoding. */
export interface Encoder {
  /** What can be decoded at once to all that was pushed so far. */
  push(bytes: Buffer): Buffer;
  finish(): Buffer;
}

/** No encoding. */
export function identityEncoder(): Encoder {
  return { push: (bytes) => bytes, finish: () => Buffer.alloc(0) };
}

const NOTHING = Buffer.alloc(0);
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
const EMPTY_FINAL_BLOCK = Buffer.from([0x03, 0x00]);

/**
 * One gzip member (RFC 1952), flushed at every push. By hand, since a zlib stream gives its bytes when it
 * likes, and the socket must get them chunk by chunk.
 */
export function gzipEncoder(): Encoder {
  let checksum = 0;
  let size = 0;
  return {
    push(bytes) {
      const start = size === 0 ? HEADER : NOTHING;
      checksum = crc32(bytes, checksum);
      size += bytes.length;
      return Buffer.concat([start, deflateRawSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH })]);
    },
    finish() {
      const trailer = Buffer.alloc(8);
      trailer.writeUInt32LE(checksum, 0);
      trailer.writeUInt32LE(size % 2 ** 32, 4);
      return Buffer.concat([size === 0 ? HEADER : Buffer.alloc(0), EMPTY_FINAL_BLOCK, trailer]);
    },
  };
}

const ZLIB_HEADER = Buffer.from([0x78, 0x9c]);
const ADLER_PRIME = 65_521;

/** One zlib stream (RFC 1950), which HTTP calls deflate, flushed at every push. */
export function deflateEncoder(): Encoder {
  let low = 1;
  let high = 0;
  let started = false;
  const start = () => {
    const header = started ? NOTHING : ZLIB_HEADER;
    started = true;
    return header;
  };
  return {
    push(bytes) {
      for (const byte of bytes) {
        low = (low + byte) % ADLER_PRIME;
        high = (high + low) % ADLER_PRIME;
      }
      const block = deflateRawSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH });
      return Buffer.concat([start(), block]);
    },
    finish() {
      const trailer = Buffer.alloc(4);
      trailer.writeUInt16BE(high, 0);
      trailer.writeUInt16BE(low, 2);
      return Buffer.concat([start(), EMPTY_FINAL_BLOCK, trailer]);
    },
  };
}

/** Brotli (RFC 7932), in one piece at the end: its streams can't be put together by hand. */
export function brotliEncoder(): Encoder {
  const parts: Buffer[] = [];
  return {
    push(bytes) {
      parts.push(bytes);
      return NOTHING;
    },
    finish: () =>
      brotliCompressSync(Buffer.concat(parts), { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  };
}
