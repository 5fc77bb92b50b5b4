import { expect, it } from 'vitest';
import { quantiles } from './quantiles.ts';

it('returns measured values, by nearest rank', () => {
  const values = Array.from({ length: 1_000 }, (_, at) => 1_000 - at);
  expect(quantiles(values)).toEqual({ p50: 500, p90: 900, p99: 990, max: 1_000 });
  expect(quantiles([7, 3])).toEqual({ p50: 3, p90: 7, p99: 7, max: 7 });
  expect(quantiles([])).toEqual({ p50: 0, p90: 0, p99: 0, max: 0 });
});
