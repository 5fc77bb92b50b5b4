import { expect, it } from 'vitest';
import { describeLeases, measureLeases } from './leases.ts';

it('finds headroom for every request of a simulated key, and counts the calls of each second', async () => {
  const figures = await measureLeases({ rounds: 1, rate: 200, onProgress: () => {} });
  expect(figures.micros.median).toBeGreaterThan(0);
  // A slice is at most half of the headroom, so one call is never enough.
  expect(figures.callsPerSecond.max).toBeGreaterThan(0);
  expect(describeLeases(figures)).toContain('200 requests/s on one key');
});
