import { expect, it } from 'vitest';
import { parseTime } from './parsers.ts';

const parse = parseTime(() => new Date('2026-11-20T10:00:00Z'));

it.each([
  ['30d', '2026-12-20T10:00:00.000Z'],
  ['2030-01-31', '2030-01-31T00:00:00.000Z'],
  ['2030-01-31T00:00:00Z', '2030-01-31T00:00:00.000Z'],
  ['2030-01-31T01:00:00.5+01:00', '2030-01-31T00:00:00.500Z'],
])('reads the time %s', (text, at) => {
  expect(parse(text)).toBe(at);
});

it.each(['2030-01-31 00:00:00Z', '2030-01-31T00:00:00', '2030-01-31T00:00Z', '2030-02-31x', 'tomorrow', ''])(
  'refuses the time %j',
  (text) => {
    expect(() => parse(text)).toThrow('2030-01-31T00:00:00Z');
  },
);
