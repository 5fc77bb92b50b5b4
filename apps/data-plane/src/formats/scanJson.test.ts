import { expectLinear } from '@weighbridge/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonScanError, scanObject } from './scanJson.ts';

const WANTED = new Set(['model', 'stream', 'max_tokens']);
const bytes = (text: string) => Buffer.from(text);

/** The wanted fields, each parsed from the span that the scanner found. */
function scanned(text: string): Record<string, unknown> {
  const source = bytes(text);
  const values: Record<string, unknown> = {};
  for (const [name, span] of scanObject(source, WANTED)) {
    values[name] = JSON.parse(source.subarray(span.start, span.end).toString());
  }
  return values;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe('scanObject', () => {
  it('finds fields in any order, with any white space', () => {
    expect(scanned(' {"a":[1,{"model":"inner"}], "stream" : true ,\n"model":"x/y" } ')).toEqual({
      stream: true,
      model: 'x/y',
    });
  });

  it('reads escaped names and values as JSON.parse does', () => {
    expect(scanned('{"mod\\u0065l":"a\\"\\\\\\u00e9","x\\"model":1}')).toEqual({ model: 'a"\\é' });
  });

  it('refuses a wanted field that occurs twice, in any spelling, and no other', () => {
    expect(() => scanned('{"model":1,"mod\\u0065l":2}')).toThrow('"model" occurs twice');
    expect(scanned('{"other":1,"other":2,"model":3}')).toEqual({ model: 3 });
  });

  it('finds fields of an object within others, where they are in all bytes', () => {
    const inner = '{"stream":[1], "model":"m"}';
    const text = `{"model":1,"inner":${inner} ,"model":2}`;
    const start = text.indexOf(inner);
    const found = scanObject(bytes(text), WANTED, { within: { start, end: start + inner.length } });
    expect([...found].map(([name, span]) => [name, text.slice(span.start, span.end)])).toEqual([
      ['stream', '[1]'],
      ['model', '"m"'],
    ]);
  });

  it('reads long text as JSON.parse does, wherever it has special characters', () => {
    const things = ['\\n', '\\u00e9', '\u007f', 'é', '€', '\u0000', '\n', '\u001f', '"', '\\', '\\x'];
    for (const thing of things) {
      for (let before = 250; before < 275; before++) {
        const text = `{"t":"${'x'.repeat(before)}${thing}${'y'.repeat(9)}","model":"m"}`;
        const isJson = parses(text);
        const source = Buffer.concat([Buffer.alloc(before % 4, 'z'), bytes(text)]).subarray(before % 4);
        if (isJson) expect(scanObject(source, WANTED).has('model')).toBe(true);
        else expect(() => scanObject(source, WANTED)).toThrow(JsonScanError);
      }
    }
  });

  it('accepts any depth of nesting', () => {
    const depth = 200_000;
    expect(scanned(`{"a":${'[{"b":'.repeat(depth)}1${'}]'.repeat(depth)},"model":"m"}`)).toEqual({
      model: 'm',
    });
  });

  it.each([
    '',
    '[]',
    '"x"',
    '{',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{,}',
    '{"a":1}}',
    '{"a":01}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":+1}',
    '{"a":tru}',
    "{'a':1}",
    '{"a":"\n"}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":1 "b":2}',
    '\ufeff{}',
    '{"a":nul',
    '{"a":"',
    '{"a":[1,]}',
    '{"a":-}',
    '{"a":1e}',
  ])('refuses %j, as JSON.parse does, or because it is not an object', (text) => {
    expect(() => scanned(text)).toThrow(JsonScanError);
  });

  it('agrees with JSON.parse on every value', () => {
    const others = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue());
    const own = fc.record(
      { model: fc.jsonValue(), stream: fc.jsonValue(), max_tokens: fc.jsonValue() },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(others, own, fc.constantFrom(undefined, 1, '\t'), (rest, wanted, indent) => {
        const text = JSON.stringify({ ...rest, ...wanted }, null, indent);
        const parsed: Record<string, unknown> = JSON.parse(text);
        expect(scanned(text)).toEqual(
          Object.fromEntries(Object.entries(parsed).filter(([name]) => WANTED.has(name))),
        );
      }),
    );
  });

  it('agrees with JSON.parse on whether a damaged text is valid', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\',
      '"a"',
      '"model"',
      '1',
      '-',
      '.',
      'e',
      'true',
      'null',
      ' ',
      '\\u00',
      'é',
      '\u0001',
    );
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(), pieces, fc.boolean(), (value, where, piece, replace) => {
        const text = JSON.stringify({ a: value, b: [value, 'x\\"é'] });
        const at = where % (text.length + 1);
        const damaged = text.slice(0, at) + piece + text.slice(at + (replace ? 1 : 0));
        let valid = true;
        try {
          const parsed: unknown = JSON.parse(damaged);
          valid = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed);
        } catch {
          valid = false;
        }
        let accepted = true;
        try {
          scanObject(bytes(damaged), new Set());
        } catch {
          accepted = false;
        }
        expect([damaged, accepted]).toEqual([damaged, valid]);
      }),
      { numRuns: 3_000 },
    );
  });

  it.each([
    ['strings without escapes', `"${'x'.repeat(300)}",`],
    ['text with rare escapes', `${'x'.repeat(300)}\\n`],
  ])('takes linear time for many %s', (_what, part) =>
    expectLinear(5_000, (size) => {
      const filler = part.repeat(size);
      const body = bytes(`{"a":${part.startsWith('"') ? `[${filler}1]` : `"${filler}"`},"b":2}`);
      return () => expect(scanObject(body, new Set(['b'])).size).toBe(1);
    }),
  );
});
