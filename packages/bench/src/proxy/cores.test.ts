import { expect, it } from 'vitest';
import { coresOf, dealCores } from './cores.ts';

it('gives the proxy a core of its own where there are two', () => {
  expect(dealCores([0, 1])).toMatchObject({ proxy: 0, pair: [0], pairIsApart: false, rest: [1] });
  expect(dealCores([0, 1, 2])).toMatchObject({ pair: [0], rest: [1, 2] });
  expect(dealCores([2, 3, 6, 7])).toMatchObject({ proxy: 2, pair: [2, 3], pairIsApart: true, rest: [6, 7] });
  expect(dealCores([5])).toMatchObject({ proxy: undefined, rest: undefined });
});

it("reads taskset's list", () => {
  expect(coresOf("pid 7's current affinity list: 0,2-4\n")).toEqual([0, 2, 3, 4]);
  expect(coresOf('')).toEqual([]);
});
