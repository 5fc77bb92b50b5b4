import { expect, it } from 'vitest';
import { acceptedType } from './mediaType.ts';

const choose = (header: string | undefined) => acceptedType(header, ['application/json', 'text/csv']);

it.each([
  [undefined, 'application/json'],
  ['', 'application/json'],
  ['*/*', 'application/json'],
  ['text/csv', 'text/csv'],
  ['Text/CSV; charset=utf-8', 'text/csv'],
  ['text/*', 'text/csv'],
  ['text/csv, application/json', 'application/json'],
  ['text/csv, application/json;q=0.9', 'text/csv'],
  ['text/html, */*;q=0.1', 'application/json'],
  ['application/json;q=0, */*', 'text/csv'],
])('for Accept %j, the type is %s', (header, type) => {
  expect(choose(header)).toBe(type);
});

it.each(['text/html', 'application/json;q=0', 'application/json;q=x', 'nonsense', ','])(
  'rejects Accept %j and names the available types',
  (header) => {
    expect(() => choose(header)).toThrow('available as application/json or text/csv');
  },
);
