import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalMembers } from './canonicalJson.ts';

const canonical = (text: string) =>
  canonicalMembers(Buffer.from(text))
    ?.map(({ bytes }) => bytes.toString())
    .join();

/** The same value with other white space and another order of members. */
function respelt(value: unknown, space: string): string {
  if (Array.isArray(value))
    return `[${space}${value.map((item) => respelt(item, space)).join(`${space},`)}${space}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).reverse();
  const texts = members.map(
    ([name, item]) => `${JSON.stringify(name)}${space}:${space}${respelt(item, space)}`,
  );
  return `{${space}${texts.join(`${space},${space}`)}${space}}`;
}

/** Names without escapes: members with escapes are not sorted. */
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.string({ unit: 'grapheme' }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(true, false, null),
    fc.array(tie('value')),
    tie('object'),
  ),
  object: fc.dictionary(fc.stringMatching(/^[\w é]*$/), tie('value')),
}));

describe('canonicalMembers', () => {
  it('ignores white space and the order of members', () => {
    fc.assert(
      fc.property(json.object, fc.constantFrom('', ' ', '\n\t '), (value, space) => {
        expect(canonical(respelt(value, space))).toBe(canonical(JSON.stringify(value)));
      }),
    );
  });

  it('preserves the value', () => {
    fc.assert(
      fc.property(json.object, (value) => {
        const text = JSON.stringify(value);
        expect(JSON.parse(`{${canonical(respelt(value, ' '))}}`)).toEqual(JSON.parse(text));
      }),
    );
  });

  it('returns the top-level members, sorted by name', () => {
    const members = canonicalMembers(Buffer.from(' { "b" : [ 1 , { "d":1 , "c":2 } ] , "a" : "x\\"y" } '));
    expect(members?.map(({ name, value }) => [name, value.toString()])).toEqual([
      ['a', '"x\\"y"'],
      ['b', '[1,{"c":2,"d":1}]'],
    ]);
    expect(canonicalMembers(Buffer.from('{ }'))).toEqual([]);
    expect(canonical('{"a":{ },"b":[ ]}')).toBe('"a":{},"b":[]');
  });

  it.each([
    ['{"a":9007199254740992}', '{"a":9007199254740993}'],
    ['{"a":1}', '{"a":1.0}'],
    ['{"a":1,"a":2}', '{"a":2,"a":1}'],
    ['{"a":1,"\\u0061":2}', '{"\\u0061":2,"a":1}'],
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":"b c"}', '{"a":"bc"}'],
    ['{"a":"\\\\","b":1}', '{"a":"\\\\\\","b":1}'],
    ['{"a":{"b":1},"c":2}', '{"a":{"b":1,"c":2}}'],
    ['{"a":""}', '{"a":[]}'],
  ])('distinguishes %s from %s', (one, other) => {
    expect(canonical(one)).not.toBe(canonical(other));
  });

  it('returns undefined for deep nesting', () => {
    const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
    expect(canonical(nested(60))).toBeDefined();
    expect(canonical(nested(70))).toBeUndefined();
    expect(canonical(nested(200_000))).toBeUndefined();
  });
});
