import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeMemory, measureMemory } from './memory.ts';

it('adds as many keys and sends as many requests as its options say', async () => {
  const figures = await measureMemory(testRun(), { requests: 100, keys: 70, onProgress: () => {} });
  expect(figures.requests).toBeGreaterThanOrEqual(100);
  expect(figures.after).toHaveLength(5);
  expect(describeMemory(figures)).toContain('70 keys known');
});
