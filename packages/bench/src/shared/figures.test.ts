import { expect, it } from 'vitest';
import { figure, formatFigure, formatTable } from './figures.ts';

it('gives the median, minimum and maximum of the measurements', () => {
  expect(figure([3, 1, 2])).toEqual({ median: 2, min: 1, max: 3 });
  expect(figure([10, 2, 4, 1])).toEqual({ median: 3, min: 1, max: 10 });
  expect(() => figure([])).toThrow('nothing was measured');
  expect(formatFigure(figure([1_234.56, 1_000, 2_000]), 1)).toBe('1,234.6 (1,000.0–2,000.0)');
});

it('lays out a table in columns', () => {
  expect(
    formatTable([
      ['what', 'events/s'],
      ['a longer one', '1'],
    ]),
  ).toBe('what          events/s\n------------  --------\na longer one  1');
});
