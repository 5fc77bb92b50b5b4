import { expect, it } from 'vitest';
import { CpuWaits } from './cpuWaits.ts';

it('adds up what one process of each name waited within the period', () => {
  const waits = new CpuWaits();
  waits.add({ name: 'proxy-1', pid: 1, from: 0, to: 1_000, ms: 600 });
  waits.add({ name: 'proxy-1', pid: 1, from: 1_000, to: 2_000, ms: 100 });
  waits.add({ name: 'proxy-2', pid: 2, from: 0, to: 2_000, ms: 2_000 });
  waits.add({ name: 'Postgres', pid: 3, from: 0, to: 2_000, ms: 300 });
  waits.add({ name: 'Postgres', pid: 4, from: 0, to: 2_000, ms: 800 });
  expect(waits.waitedMs(['proxy-1', 'Postgres'], 0, 2_000)).toBe(1_500);
  expect(waits.waitedMs(['proxy-1', 'Postgres'], 500, 1_500)).toBe(750);
  expect(waits.waitedMs(['proxy-1', 'unknown'], 2_000, 3_000)).toBe(0);
});
