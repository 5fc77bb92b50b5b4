import { describe, expect, it } from 'vitest';
import { percentile } from './visible.ts';

describe('a percentile', () => {
  it('is the least figure that its share of the figures does not exceed', () => {
    const hundred = Array.from({ length: 100 }, (_, at) => at + 1);
    expect([0, 0.5, 0.99, 1].map((part) => percentile(hundred, part))).toEqual([1, 50, 99, 100]);
    expect([0.5, 0.99].map((part) => percentile([7], part))).toEqual([7, 7]);
  });
});
