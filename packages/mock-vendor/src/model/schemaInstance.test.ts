import { expect, test } from 'vitest';
import { argumentsFor, instanceOf } from './schemaInstance.ts';

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
    tags: [],
  });
});

test('what a schema demands of a value is heeded', () => {
  const schema = {
    type: 'OBJECT',
    properties: {
      choice: { type: 'STRING', enum: ['flash', 'pro'] },
      few: { type: 'ARRAY', items: { type: 'INTEGER' }, minItems: '2' },
      pair: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'boolean' }] },
      score: { type: 'NUMBER', minimum: 10, exclusiveMaximum: 11 },
      part: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
      even: { type: 'integer', multipleOf: 2, minimum: 3 },
      less: { type: 'integer', maximum: -3 },
      old: { type: 'integer', minimum: 1, exclusiveMinimum: true },
      code: { type: 'string', minLength: 4, maxLength: 5 },
      short: { type: 'string', maxLength: 1 },
      day: { type: 'string', format: 'date' },
      all: {
        allOf: [{ $ref: '#/$defs/named' }, { properties: { age: { type: 'integer' } }, required: ['age'] }],
      },
      beside: {
        type: 'object',
        properties: { a: { type: 'integer' } },
        anyOf: [{ required: ['a'] }, { required: ['b'] }],
      },
      free: {},
      nothing: { type: 'null' },
    },
    $defs: { named: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } },
  };
  const required = Object.keys(schema.properties);
  expect(instanceOf({ ...schema, required }, 'Hi')).toEqual({
    choice: 'flash',
    few: [1, 1],
    pair: ['Hi', true],
    score: 10,
    part: 0.5,
    even: 4,
    less: -3,
    old: 2,
    code: 'Hi..',
    short: 'H',
    day: '2026-01-01',
    all: { name: 'Hi', age: 1 },
    beside: { a: 1 },
    free: null,
    nothing: null,
  });
});

test.each([
  [{ type: 'string' }, 'Hi'],
  [{ enum: [3, 4] }, 3],
  [{ type: 'array', items: { type: 'string' }, minItems: 1 }, ['Hi']],
  [true, null],
])('a schema need not be of an object: %j', (schema, value) => {
  expect(instanceOf(schema, 'Hi')).toEqual(value);
});

test('what refers to itself ends as soon as it may', () => {
  const node = {
    type: 'object',
    properties: {
      value: { type: 'integer' },
      next: { anyOf: [{ $ref: '#' }, { type: 'null' }] },
      children: { type: 'array', items: { $ref: '#' } },
    },
    required: ['value', 'next', 'children'],
  };
  let depth = 0;
  for (let at = instanceOf(node, 'Hi') as Record<string, unknown> | null; at; at = at.next as typeof at) {
    expect([at.value, at.children]).toEqual([1, []]);
    depth += 1;
  }
  expect(depth).toBeLessThan(10);
  expect(instanceOf({ $ref: '#' }, 'Hi')).toBeNull();
});

test.each([[undefined], [null], ['text'], [{}]])('without a schema there are no arguments: %j', (schema) => {
  expect(argumentsFor(schema, 'Hi')).toBe('{}');
});

test('a schema that refers to itself many times over still ends', () => {
  const self = { $ref: '#' };
  const schema = { type: 'object', properties: { a: self, b: self, c: self }, required: ['a', 'b', 'c'] };
  expect(argumentsFor(schema, 'Hi').length).toBeLessThan(20_000);
});
