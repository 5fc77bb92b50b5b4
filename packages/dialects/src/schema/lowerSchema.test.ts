import { describe, expect, it } from 'vitest';
import type { JsonText } from '../ir/request.ts';
import { Losses } from '../loss/losses.ts';
import { lowerSchema } from './lowerSchema.ts';
import { raiseSchema } from './raiseSchema.ts';
import { qualifiesForStrict } from './strictSchema.ts';

function lower(schema: unknown) {
  const losses = new Losses();
  const lowered = JSON.parse(lowerSchema(JSON.stringify(schema) as JsonText, 'tools.0', losses));
  return {
    lowered,
    reasons: losses.listed.map(({ reason }) => reason),
    refused: losses.isRefused('lenient'),
  };
}

describe('lowerSchema', () => {
  it('makes null a member, constants enums, and one of several types a union', () => {
    const properties = {
      a: { type: ['string', 'null'] },
      b: { const: 'x' },
      c: { type: ['string', 'integer'] },
      d: { anyOf: [{ type: 'number' }, { type: 'null' }] },
      e: { enum: ['y', null] },
    };
    const { lowered, reasons } = lower({
      $schema: 's',
      type: 'object',
      properties,
      additionalProperties: false,
    });
    expect(reasons).toEqual([]);
    expect(lowered.properties).toEqual({
      a: { type: 'string', nullable: true },
      b: { type: 'string', enum: ['x'] },
      c: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
      d: { type: 'number', nullable: true },
      e: { type: 'string', enum: ['y'], nullable: true },
    });
  });

  it('puts what is referred to in its place, and names what it loses', () => {
    const $defs = {
      one: { type: 'string' },
      self: { type: 'object', properties: { next: { $ref: '#/$defs/self' } } },
    };
    const { lowered, reasons } = lower({
      properties: { a: { $ref: '#/$defs/one' }, b: { $ref: '#/$defs/self' } },
      $defs,
    });
    expect(lowered.properties).toEqual({
      a: { type: 'string' },
      b: { type: 'object', properties: { next: { type: 'object' } } },
    });
    expect(reasons).toHaveLength(1);
    expect(lower({ type: 'string', format: 'uri' }).reasons).toEqual(["the schema's format uri is not sent"]);
    expect(lower({ type: 'object', patternProperties: {} }).reasons).toHaveLength(1);
    expect(lower({ type: 'object', additionalProperties: {} }).reasons).toHaveLength(1);
  });

  it('refuses what grows without bound', () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => {
        const next = { $ref: `#/$defs/d${index + 1}` };
        return [`d${index}`, { type: 'object', properties: { a: next, b: next } }];
      }),
    );
    expect(lower({ $ref: '#/$defs/d0', $defs }).refused).toBe(true);
  });
});

describe('raiseSchema', () => {
  it('writes a JSON schema', () => {
    const losses = new Losses();
    const own = {
      type: 'OBJECT',
      properties: { a: { type: 'STRING', nullable: true, minLength: '2' } },
      propertyOrdering: ['a'],
    };
    const raised = raiseSchema(JSON.stringify(own) as JsonText, 'tools.0', losses);
    expect(JSON.parse(raised)).toEqual({
      type: 'object',
      properties: { a: { type: ['string', 'null'], minLength: 2 } },
    });
    expect(losses.listed).toEqual([]);
  });
});

describe('qualifiesForStrict', () => {
  it.each([
    [
      { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false },
      true,
    ],
    [
      { type: 'object', properties: { a: { type: 'string' } }, required: [], additionalProperties: false },
      false,
    ],
    [{ type: 'object', properties: {}, required: [] }, false],
    [
      { type: 'object', properties: { a: { allOf: [] } }, required: ['a'], additionalProperties: false },
      false,
    ],
    [{ type: 'array', items: {} }, false],
  ])('%j: %s', (schema, expected) => {
    expect(qualifiesForStrict(JSON.stringify(schema) as JsonText)).toBe(expected);
  });
});
