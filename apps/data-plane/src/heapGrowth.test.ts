import { expect, it } from 'vitest';
import { growingPercent, nodeArguments } from './heapGrowth.ts';

const MIB = 1024 * 1024;

it('lets a small heap grow by 40 MiB, and a large one by a fifth', () => {
  expect(growingPercent(20 * MIB)).toBe(200);
  expect(growingPercent(160 * MIB)).toBe(25);
  expect(growingPercent(1_000 * MIB)).toBe(20);
});

it('bounds the young generation of a process that it starts, unless the operator did', () => {
  expect(nodeArguments(['--enable-source-maps'])).toEqual([
    '--enable-source-maps',
    '--max-semi-space-size=16',
  ]);
  expect(nodeArguments([], '--trace-warnings --max-semi-space-size=64')).toEqual([]);
  expect(nodeArguments(['--max_semi_space_size=4'], '')).toEqual(['--max_semi_space_size=4']);
});
