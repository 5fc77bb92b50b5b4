import { expect, it } from 'vitest';
import { arrange } from './series.ts';

const SUMS = [
  { at: '2026-11-01T00:00:00.000Z', series: 'a', value: 1 },
  { at: '2026-11-01T00:00:00Z', series: 'others', value: 9 },
  { at: '2026-11-03T00:00:00.000Z', series: 'b', value: 5 },
  { at: '2026-11-03T00:00:00.000Z', series: 'a', value: 2 },
];

it('shows days without usage, the largest series first and the others last', () => {
  expect(arrange(SUMS, { bucket: 'day', cumulative: false, others: 'others' })).toEqual({
    series: ['b', 'a', 'others'],
    points: [
      { at: '2026-11-01T00:00:00.000Z', values: [0, 1, 9] },
      { at: '2026-11-02T00:00:00.000Z', values: [0, 0, 0] },
      { at: '2026-11-03T00:00:00.000Z', values: [5, 2, 0] },
    ],
  });
});

it('adds up what came before', () => {
  const { points } = arrange(SUMS, { bucket: 'day', cumulative: true, others: 'others' });
  expect(points.map(({ values }) => values)).toEqual([
    [0, 1, 9],
    [0, 1, 9],
    [5, 3, 9],
  ]);
});

it('has nothing to show without sums', () => {
  expect(arrange([], { bucket: 'hour', cumulative: true, others: '' })).toEqual({ series: [], points: [] });
});
