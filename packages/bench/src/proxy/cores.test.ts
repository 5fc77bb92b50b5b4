import { expect, it } from 'vitest';
import { assignCores, parseCoreList } from './cores.ts';

it('gives the proxy its own core if there are two', () => {
  expect(assignCores([0, 1])).toMatchObject({ proxy: 0, pair: [0], pairIsApart: false, rest: [1] });
  expect(assignCores([0, 1, 2])).toMatchObject({ pair: [0], rest: [1, 2] });
  expect(assignCores([2, 3, 6, 7])).toMatchObject({
    proxy: 2,
    pair: [2, 3],
    pairIsApart: true,
    rest: [6, 7],
  });
  expect(assignCores([5])).toMatchObject({ proxy: undefined, rest: undefined });
});

it("parses taskset's list", () => {
  expect(parseCoreList("pid 7's current affinity list: 0,2-4\n")).toEqual([0, 2, 3, 4]);
  expect(parseCoreList('')).toEqual([]);
});
