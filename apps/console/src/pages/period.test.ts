import { expect, it } from 'vitest';
import { bucketLabel, bucketOf, periodOf } from './period.ts';

const NOW = new Date('2026-11-23T14:00:00Z');

it('goes along with time, or is fixed by the address', () => {
  expect(periodOf({}, NOW)).toEqual({ from: '2026-11-01T00:00:00.000Z' });
  expect(periodOf({ range: '7' }, NOW)).toEqual({ from: '2026-11-16T00:00:00.000Z' });
  const fixed = { from: '2026-10-01T00:00:00.000Z', to: '2026-10-02T00:00:00.000Z' };
  expect(periodOf({ range: '7', ...fixed }, NOW)).toEqual(fixed);
});

it('draws hours of days, days of a quarter, and months beyond', () => {
  const buckets = ['1', '7', '90', '365'].map((range) => bucketOf(periodOf({ range }, NOW), NOW));
  expect(buckets).toEqual(['hour', 'day', 'day', 'month']);
  const labels = (['hour', 'day', 'month'] as const).map((bucket) =>
    bucketLabel('2026-11-03T04:00:00.000Z', bucket),
  );
  expect(labels).toEqual(['11-03 04:00', '11-03', '2026-11']);
});
