import { expect, it } from 'vitest';
import { growingPercent } from './paceHeap.ts';

const MIB = 1024 * 1024;

it('lets a small heap grow by 40 MiB, and a large one by a third', () => {
  expect(growingPercent(20 * MIB)).toBe(200);
  expect(growingPercent(80 * MIB)).toBe(50);
  expect(growingPercent(1_000 * MIB)).toBe(35);
});
