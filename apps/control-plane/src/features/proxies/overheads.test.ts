import { create } from '@bufbuild/protobuf';
import { OverheadHistogramSchema } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { percentilesOf, reportedOverhead } from './overheads.ts';

const report = (boundsUs: number[], counts: number[]) => ({ boundsUs, counts, windowMs: 60_000 });

it('adds histograms up before it takes percentiles', () => {
  // A proxy with few slow requests does not weigh as much as one with many fast ones.
  const fast = report([100, 200, 1_000], [1_000, 0, 0, 0]);
  const slow = report([100, 200, 1_000], [0, 0, 10, 0]);
  expect(percentilesOf([fast, slow])).toEqual({ requests: 1_010, p50Us: 50.5, p95Us: 95.95 });
  expect(percentilesOf([slow])).toMatchObject({ p50Us: 600, p95Us: 960 });
});

it('adds histograms with other bounds up too, as of another release', () => {
  expect(percentilesOf([report([100], [10, 0]), report([50, 100], [10, 0, 0])])).toMatchObject({
    requests: 20,
    p50Us: 50,
  });
});

it('has no percentiles without requests, and none above the highest bound', () => {
  expect(percentilesOf([])).toBeNull();
  expect(percentilesOf([report([100], [0, 0])])).toBeNull();
  expect(percentilesOf([report([100, 200], [0, 0, 5])])).toMatchObject({ p50Us: 200, p95Us: 200 });
});

it('takes only histograms that make sense', () => {
  const read = (boundsUs: number[], counts: bigint[]) =>
    reportedOverhead(create(OverheadHistogramSchema, { boundsUs, counts, windowMs: 5 }));
  expect(reportedOverhead(undefined)).toBeUndefined();
  expect(read([50, 100], [1n, 2n, 3n])).toEqual({ boundsUs: [50, 100], counts: [1, 2, 3], windowMs: 5 });
  expect(read([100, 50], [1n, 2n, 3n])).toBeUndefined();
  expect(read([50], [1n])).toBeUndefined();
  expect(read([50], [1n, 2n ** 60n])).toBeUndefined();
  const many = Array.from({ length: 33 }, (_, n) => n + 1);
  expect(read(many, [...many, 0].map(BigInt))).toBeUndefined();
});
