import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeControl, measureControl } from './control.ts';

it('sees every proxy refuse a revoked key and look up an unknown key once', {
  timeout: 120_000,
}, async () => {
  const figures = await measureControl(testRun(), { proxies: 2, keys: 2, onProgress: () => {} });
  expect(figures).toMatchObject({ callsOfUnknown: 1, callsOfKnown: 0 });
  expect(figures.knownMicros.median).toBeGreaterThan(0);
  expect(figures.refusedMs.p50).toBeGreaterThan(0);
  expect(describeControl(figures)).toContain('2 keys, 2 proxies');
});
