import { expect, it } from 'vitest';
import { bucketLabel, bucketOf, periodOf, shorterRange, wholeDays } from './period.ts';

const NOW = new Date('2026-11-23T14:00:00Z');

it('goes along with time, or is fixed by the address', () => {
  expect(periodOf({}, NOW)).toEqual({ from: '2026-11-01T00:00:00.000Z' });
  expect(periodOf({ range: '7' }, NOW)).toEqual({ from: '2026-11-16T00:00:00.000Z' });
  const fixed = { from: '2026-10-01T00:00:00.000Z', to: '2026-10-02T00:00:00.000Z' };
  expect(periodOf({ range: '7', ...fixed }, NOW)).toEqual(fixed);
  expect(periodOf({ range: '7', from: 'yesterday' }, NOW)).toEqual(periodOf({ range: '7' }, NOW));
});

it('draws hours of days, days of a quarter, and months beyond', () => {
  const buckets = ['1', '7', '90', '365'].map((range) => bucketOf(periodOf({ range }, NOW), NOW));
  expect(buckets).toEqual(['hour', 'day', 'day', 'month']);
  const labels = (['hour', 'day', 'month'] as const).map((bucket) =>
    bucketLabel('2026-11-03T04:00:00.000Z', bucket),
  );
  expect(labels).toEqual(['11-03 04:00', '11-03', '2026-11']);
});

it('has the whole days of a period for a file, at most 31 and at least one', () => {
  const days = (range: string) => {
    const { from, to } = wholeDays(periodOf({ range }, NOW), NOW);
    return [from.slice(0, 10), to.slice(0, 10)];
  };
  expect(days('month')).toEqual(['2026-11-01', '2026-11-23']);
  expect(days('365')).toEqual(['2026-10-23', '2026-11-23']);
  const hours = { from: '2026-10-01T05:00:00.000Z', to: '2026-10-03T07:00:00.000Z' };
  expect(wholeDays(hours, NOW)).toEqual({
    from: '2026-10-02T00:00:00.000Z',
    to: '2026-10-03T00:00:00.000Z',
  });
  const first = new Date('2026-12-01T08:00:00Z');
  expect(wholeDays(periodOf({}, first), first).from).toBe('2026-11-30T00:00:00.000Z');
});

it('offers a shorter range for one that took too long', () => {
  const shorter = ['365', '90', '30', '7', '1'].map((range) => shorterRange(periodOf({ range }, NOW), NOW));
  expect(shorter).toEqual(['30', '30', '7', '1', undefined]);
});
