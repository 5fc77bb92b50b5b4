import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../../testing/src/linearTime.ts';
import { duplicateField, parseJsonBody } from './jsonBody.ts';

const parse = (body: string | Buffer) => parseJsonBody(Buffer.from(body as string));

function codeOf(body: string | Buffer): string | undefined {
  try {
    parse(body);
    return undefined;
  } catch (error) {
    return error instanceof AppError ? `${error.code} ${error.param ?? ''}`.trim() : 'other';
  }
}

describe('a JSON body', () => {
  it.each([
    ['{"a":1,"a":1}', 'a'],
    ['{"a":1,"b":{"c":[{"d":1},{"d":2,"e":3,"d":4}]}}', 'b.c.1.d'],
    ['{"a":{"x":1},"a":{"y":1}}', 'a'],
    ['{"na\\u006de":1,"name":2}', 'name'],
    ['{"\\"":1,"\\u0022":2}', '"'],
    ['[[],{"":1,"":2}]', '1.'],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"a" :\n1 , "a"\t: 2}', 'a'],
  ])('with a duplicate is refused by its path: %s', (body, path) => {
    expect(codeOf(body)).toBe(`duplicate_field ${path}`.trim());
  });

  it.each([
    '{"a":1,"b":1,"A":1}',
    '{"a":{"a":{"a":1}},"b":["a","a",{"a":1},{"a":1}]}',
    '{"a":"a","b":"\\",\\"a\\":1","c":"{\\"a\\":1}"}',
    '[]',
    '"a"',
    '12',
    'null',
    '{"a":[],"b":[[],[]],"c":{},"d":{}}',
    '{"\\\\":1,"\\\\\\"":2}',
  ])('without one is read: %s', (body) => {
    expect(parse(body)).toEqual(JSON.parse(body));
  });

  it.each([
    ['a lone continuation byte', [0x80]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['half a character', [0xe2, 0x82]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['a byte of Latin-1', [0xe9]],
    ['past the last code point', [0xf4, 0x90, 0x80, 0x80]],
  ])('with %s is refused', (_what, bytes) => {
    const body = Buffer.concat([Buffer.from('{"name":"'), Buffer.from(bytes), Buffer.from('"}')]);
    expect(codeOf(body)).toBe('malformed_json');
  });

  it('that begins with a byte order mark is refused', () => {
    expect(codeOf('\ufeff{}')).toBe('malformed_json');
  });

  it.each<[string, (count: number) => string]>([
    ['objects', (count) => `[${'{"a":1},'.repeat(count)}{}]`],
    ['fields', (count) => `{${Array.from({ length: count }, (_, at) => `"${at}":${at}`).join()}}`],
    ['levels', (count) => '['.repeat(count) + ']'.repeat(count)],
    ['escapes', (count) => `"${'\\\\'.repeat(count)}"`],
  ])('is looked through in linear time for many %s', (_what, textOf) =>
    expectLinear(10_000, (size) => {
      const text = textOf(size);
      return () => expect(duplicateField(text)).toBeUndefined();
    }),
  );
});
