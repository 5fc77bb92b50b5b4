import { expect, it } from 'vitest';
import { growingPercent } from './heapGrowth.ts';

const MIB = 1024 * 1024;

it('lets a small heap grow by 40 MiB, and a large one by a fifth', () => {
  expect(growingPercent(20 * MIB)).toBe(200);
  expect(growingPercent(160 * MIB)).toBe(25);
  expect(growingPercent(1_000 * MIB)).toBe(20);
});
