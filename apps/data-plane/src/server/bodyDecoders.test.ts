import { brotliCompressSync, constants } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { zstdFrame } from '../../test/zstdFrames.ts';
import { BODY_ENCODINGS, bodyEncoding, brotliWindowLog, zstdWindowLog } from './bodyDecoders.ts';

describe('how much memory a decoder takes', () => {
  it('is what a brotli stream says', () => {
    for (let log = 10; log <= 24; log++) {
      const params = { [constants.BROTLI_PARAM_LGWIN]: log, [constants.BROTLI_PARAM_SIZE_HINT]: 2 ** 25 };
      const stream = brotliCompressSync(Buffer.alloc(1_000, 'abc'), { params });
      expect(brotliWindowLog(stream)).toBe(log);
    }
  });

  it('is what a zstd frame says, or the most that is allowed', () => {
    const most = 23;
    for (const log of [10, 17, 21, 27]) expect(zstdWindowLog(zstdFrame(Buffer.from('x'), log))).toBe(log);
    const frame = (...bytes: number[]) => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, ...bytes, 0, 0, 0]);
    // An eighth more than 2 ^ 17.
    expect(zstdWindowLog(frame(0, (7 << 3) | 1))).toBe(18);
    // The size of the whole content: 200, 256 + 1,000, 100,000; and behind the id of a dictionary.
    expect(zstdWindowLog(frame(0x20, 200))).toBe(8);
    expect(zstdWindowLog(frame(0x60, 0xe8, 0x03))).toBe(11);
    expect(zstdWindowLog(frame(0xa0, 0xa0, 0x86, 0x01, 0x00))).toBe(17);
    expect(zstdWindowLog(frame(0x21, 7, 200))).toBe(8);
    expect(zstdWindowLog(frame(0xe0, 1, 0, 0, 0, 0, 0, 0, 0))).toBe(most);
    for (const start of [[], [0x28], [0x28, 0xb5, 0x2f, 0xfd, 0x20], [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0]])
      expect(zstdWindowLog(Buffer.from(start))).toBe(most);
  });
});

it('takes one coding, by any spelling of its name', () => {
  const of = (name?: string) => bodyEncoding({ 'content-encoding': name });
  expect([of(), of('identity'), of('gzip'), of('X-GZIP'), of('Br')]).toEqual([
    undefined,
    undefined,
    'gzip',
    'gzip',
    'br',
  ]);
  expect(of('zstd')).toBe(BODY_ENCODINGS.includes('zstd') ? 'zstd' : undefined);
});
