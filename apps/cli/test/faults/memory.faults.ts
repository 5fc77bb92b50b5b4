import { expect, it } from 'vitest';
import { longForm } from './longForm.ts';
import { GIGABYTE, inMegabytes, MEGABYTE, startStreamedProxy } from './memory.ts';

const READERS = 5_000;

it('the memory of a proxy stays flat with a gigabyte through one connection, and with thousands of clients that do not read', async () => {
  const { endsAt, log } = longForm(process.env);
  const proxy = await startStreamedProxy();
  try {
    await proxy.readThrough(20 * MEGABYTE);
    do {
      const began = performance.now();
      const { bytes, residentBefore, residentMost } = await proxy.readThrough(GIGABYTE);
      const seconds = ((performance.now() - began) / 1_000).toFixed(1);
      log(
        'figures',
        `1 GB in ${seconds} s: ${inMegabytes(residentBefore)} before, ${inMegabytes(residentMost)} at most`,
      );
      expect(bytes).toBeGreaterThanOrEqual(GIGABYTE);
      expect(residentMost - residentBefore).toBeLessThan(100 * MEGABYTE);
    } while (performance.now() < endsAt);

    const { residentBefore, residentFilled, sentBytes } = await proxy.fillReaders({
      readers: READERS,
      quietMs: 12_000,
    });
    const kibibytesEach = (residentFilled - residentBefore) / READERS / 1024;
    log(
      'figures',
      `${READERS} readers that do not read: ${inMegabytes(residentBefore)} before, ${inMegabytes(residentFilled)} filled, ` +
        `${kibibytesEach.toFixed(0)} KiB each; the vendor sent ${inMegabytes(sentBytes)}`,
    );
    // A few reads' worth, whatever the response size; the kernel's buffers hold the rest of what was sent.
    expect(kibibytesEach).toBeLessThan(256);
    expect(sentBytes / READERS).toBeLessThan(2 * MEGABYTE);
  } finally {
    await proxy.close();
  }
});
