import { requireLinux } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GIGABYTE, inMegabytes, MEGABYTE, type StreamedProxy, startStreamedProxy } from './faults/memory.ts';

// The long form, a gigabyte through one connection and 5,000 readers, is `pnpm test:faults --form memory`.
const STREAMED_BYTES = GIGABYTE / 5;
const READERS = 500;
/** The heap grows by this under load, whatever the number of clients. */
const HEAP_GROWTH_BYTES = 100 * MEGABYTE;
const BYTES_PER_READER = 256 * 1024;
/** Linux buffers up to 4 MB on the sending and 6 MB on the receiving side of each of two connections. */
const KERNEL_BYTES_PER_READER = 20 * MEGABYTE;

let proxy: StreamedProxy;
beforeAll(async () => {
  requireLinux('only Linux shows the memory of another process');
  proxy = await startStreamedProxy();
});
afterAll(() => proxy?.close());

describe('the memory of a proxy', () => {
  it(`stays flat while ${inMegabytes(STREAMED_BYTES)} go through one connection`, async () => {
    await proxy.readThrough(20 * MEGABYTE);
    const { bytes, residentBefore, residentMost } = await proxy.readThrough(STREAMED_BYTES);
    expect(bytes).toBeGreaterThanOrEqual(STREAMED_BYTES);
    expect(residentMost - residentBefore).toBeLessThan(50 * MEGABYTE);
  });

  it(`stays flat with ${READERS} clients that do not read`, async () => {
    const { residentBefore, residentFilled, sentBytes } = await proxy.fillReaders({
      readers: READERS,
      quietMs: 2_000,
    });
    // A few reads' worth, whatever the response size; the kernel's buffers hold the rest of what was sent.
    expect(residentFilled - residentBefore).toBeLessThan(HEAP_GROWTH_BYTES + READERS * BYTES_PER_READER);
    expect(sentBytes / READERS).toBeLessThan(KERNEL_BYTES_PER_READER);
  });
});
