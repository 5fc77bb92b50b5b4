import { expect, test } from 'vitest';
import { argumentsFor } from './toolArguments.ts';

test('required properties are filled by their type, optional ones left out', () => {
  const schema = {
    type: 'object',
    properties: {
      city: { type: 'string' },
      days: { type: 'integer' },
      ratio: { type: 'number' },
      metric: { type: 'boolean' },
      unit: { enum: ['C', 'F'] },
      version: { const: 2 },
      note: { type: ['null', 'string'] },
      either: { anyOf: [{ type: 'number' }, { type: 'string' }] },
      place: { $ref: '#/$defs/place' },
      tags: { type: 'array', items: { type: 'string' } },
      optional: { type: 'string' },
    },
    required: ['city', 'days', 'ratio', 'metric', 'unit', 'version', 'note', 'either', 'place', 'tags'],
    $defs: { place: { type: 'object', properties: { street: { type: 'string' } }, required: ['street'] } },
  };
  expect(JSON.parse(argumentsFor(schema, 'Hi'))).toEqual({
    city: 'Hi',
    days: 1,
    ratio: 1,
    metric: true,
    unit: 'C',
    version: 2,
    note: 'Hi',
    either: 1,
    place: { street: 'Hi' },
    tags: ['Hi'],
  });
});

test.each([[undefined], [null], ['text'], [{}]])('without a schema there are no arguments: %j', (schema) => {
  expect(argumentsFor(schema, 'Hi')).toBe('{}');
});

test('a schema that refers to itself many times over still ends', () => {
  const self = { $ref: '#' };
  const schema = { type: 'object', properties: { a: self, b: self, c: self }, required: ['a', 'b', 'c'] };
  expect(argumentsFor(schema, 'Hi').length).toBeLessThan(20_000);
});
