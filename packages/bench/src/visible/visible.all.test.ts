import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeVisible, measureVisible } from './visible.ts';

it('measures while another process syncs the disk', async () => {
  const options = { rate: 20, seconds: 1, isDiskBusy: true, onProgress: () => {} };
  const figures = await measureVisible(testRun(), options);
  expect(figures.probes).toBe(10);
  expect(figures.p50Ms).toBeGreaterThan(0);
  expect(describeVisible(figures)).toContain('while another process synced the disk');
});
