import { describe, expect, it } from 'vitest';
import type { JsonText } from '../ir/request.ts';
import { TooManyItems } from './jsonCursor.ts';
import { type KeptShape, parseBody } from './parseBody.ts';
import { Raw, writeJson } from './writeJson.ts';

const SHAPE: KeptShape = { members: { tools: { items: { members: { input: 'kept' } } } } };

describe('parseBody', () => {
  it('keeps values as they were written, and parses the rest', () => {
    const input = '{"a": 1.0, "10": 12345678901234567890, "2": "\\u00e9"}';
    const parsed = parseBody(
      Buffer.from(`{"n":1.0,"tools":[{"name":"é","input": ${input} },{"input":7}]} `),
      SHAPE,
    );
    expect(parsed?.value).toEqual({ n: 1, tools: [{ name: 'é', input: 0 }, { input: 1 }] });
    expect(parsed?.kept).toEqual([input, '7']);
  });

  it('counts the last of repeated members, and lets none be taken for a kept one', () => {
    const parsed = parseBody(
      Buffer.from('{"tools":[{"input":{"a":1},"input":{"b":2}}],"input":0,"__proto__":{"x":1}}'),
      SHAPE,
    );
    expect(parsed?.kept).toEqual(['{"a":1}', '{"b":2}']);
    // A prototype is a member like others, and the number beside is not kept.
    expect(JSON.stringify(parsed?.value)).toBe('{"tools":[{"input":1}],"input":0,"__proto__":{"x":1}}');
  });

  it.each(['', '{', '{"a":1}}', '{"tools":[{"input":{]}]}', '{"tools":[1 2]}', "{'a':1}", '[1,]', 'nul'])(
    'is undefined for what is no JSON: %s',
    (text) => expect(parseBody(Buffer.from(text), SHAPE)).toBeUndefined(),
  );

  it('throws once a list of its shape has too many items, however they nest', () => {
    const shape = { members: { messages: { items: { members: { content: { items: {} } } } } } };
    const body = Buffer.from('{"other":[1,2,3,4],"messages":[{"content":[1,2]},{"content":"x"}]}');
    expect(parseBody(body, shape, { maxItems: 4 })?.value).toMatchObject({
      messages: [{ content: [1, 2] }, {}],
    });
    expect(() => parseBody(body, shape, { maxItems: 3 })).toThrow(TooManyItems);
    const values = Buffer.from(`{"x":[${'{},'.repeat(100)}{}]}`);
    expect(() => parseBody(values, shape, { maxValues: 101 })).toThrow(TooManyItems);
    expect(parseBody(values, shape, { maxValues: 102 })).toBeDefined();
    const deep = Buffer.from(`{"x":${'['.repeat(9)}${']'.repeat(9)}}`);
    expect(() => parseBody(deep, shape, { maxDepth: 7 })).toThrow(TooManyItems);
    expect(parseBody(deep, shape, { maxDepth: 8 })).toBeDefined();
  });
});

describe('writeJson', () => {
  it('writes what JSON.stringify writes, but raw values as they are', () => {
    const value = { a: [1, 'é"\u2028\ud800', null, true, { b: undefined, c: {} }, []], '"': 0, d: undefined };
    expect(writeJson(value)).toBe(JSON.stringify(value));
    expect(writeJson({ a: new Raw('{"x": 1.0}' as JsonText), b: '{"x": 1.0}' })).toBe(
      '{"a":{"x": 1.0},"b":"{\\"x\\": 1.0}"}',
    );
  });
});
