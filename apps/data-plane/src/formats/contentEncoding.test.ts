import { randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { HeldMemory, MemoryBudget } from '../shared/memoryBudget.ts';
import { decodeBody, StreamDecoder } from './contentEncoding.ts';

const MIB = 1024 * 1024;
const brotli = (bytes: Buffer) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } });
const ENCODERS = { gzip: gzipSync, deflate: deflateSync, br: brotli } as const;
const ENCODINGS = ['gzip', 'deflate', 'br'] as const;
/** Prose compresses to a third, the events of a stream to a twentieth or so. */
const TEXT = Buffer.from(
  Array.from(
    { length: 20_000 },
    (_, at) => `data: {"choices":[{"delta":{"content":"w${at % 97}"}}]}\n\n`,
  ).join(''),
);

/** Pushes a response in chunks of this size; returns what came out, and the most that was held. */
async function decodeInChunks(
  encoding: (typeof ENCODINGS)[number],
  encoded: Buffer,
  chunkBytes: number,
  budget = new MemoryBudget(64 * MIB),
) {
  const decoder = new StreamDecoder(encoding, new HeldMemory(budget));
  const decoded: Buffer[] = [];
  let heldBytes = 0;
  let largestBytes = 0;
  for (let at = 0; at < encoded.length; at += chunkBytes) {
    const bytes = await decoder.push(encoded.subarray(at, at + chunkBytes));
    largestBytes = Math.max(largestBytes, bytes.length);
    heldBytes = Math.max(heldBytes, budget.usedBytes);
    decoded.push(bytes);
  }
  decoded.push(await decoder.end());
  const { hasFailed } = decoder;
  decoder.close();
  return { decoded: Buffer.concat(decoded), hasFailed, heldBytes, largestBytes, leftBytes: budget.usedBytes };
}

describe.each(ENCODINGS)('%s', (encoding) => {
  it('decodes the events of a stream, wherever its chunks end, and returns its memory', async () => {
    const encoded = ENCODERS[encoding](TEXT);
    for (const chunkBytes of [encoded.length, 1_000, 61]) {
      const { decoded, hasFailed, leftBytes } = await decodeInChunks(encoding, encoded, chunkBytes);
      expect(decoded.equals(TEXT)).toBe(true);
      expect([hasFailed, leftBytes]).toEqual([false, 0]);
    }
    expect((await decodeBody(encoding, encoded, 32 * MIB))?.equals(TEXT)).toBe(true);
  });

  it('stops at a bomb, and holds little of it', async () => {
    const bomb = ENCODERS[encoding](Buffer.alloc(300 * MIB));
    for (const chunkBytes of [bomb.length, 16 * 1024, 100]) {
      const result = await decodeInChunks(encoding, bomb, chunkBytes);
      expect(result.hasFailed).toBe(true);
      expect(result.decoded.length).toBeLessThanOrEqual(MIB + bomb.length * 200);
      expect(result.largestBytes).toBeLessThanOrEqual(64 * MIB);
      expect(result.leftBytes).toBe(0);
    }
    expect(await decodeBody(encoding, bomb, 32 * MIB)).toBeUndefined();
  });

  it('stops where memory is short', async () => {
    const encoded = ENCODERS[encoding](randomBytes(3 * MIB));
    const result = await decodeInChunks(encoding, encoded, encoded.length, new MemoryBudget(2 * MIB));
    expect([result.hasFailed, result.decoded.length, result.leftBytes]).toEqual([true, 0, 0]);
    const none = new MemoryBudget(1_000);
    expect((await decodeInChunks(encoding, encoded, 100, none)).hasFailed).toBe(true);
  });

  it('stops at damage', async () => {
    const encoded = Buffer.from(ENCODERS[encoding](TEXT));
    encoded.fill(0xff, 0, 64);
    const result = await decodeInChunks(encoding, encoded, 1_000);
    expect([result.hasFailed, result.leftBytes]).toEqual([true, 0]);
  });
});
