import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FreeformDecoder, freeformArguments } from './freeform.ts';

function decode(pieces: readonly string[]): string {
  const decoder = new FreeformDecoder();
  return pieces.map((piece) => decoder.push(piece)).join('') + decoder.end();
}

describe('FreeformDecoder', () => {
  it('reads the text wherever the arguments are split, with no half of a character', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '😀', '\n', '"', '\\', 'u', '\ud83d', '{') });
    fc.assert(
      fc.property(
        text,
        fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 }),
        fc.boolean(),
        (input, sizes, escapes) => {
          const plain: string = freeformArguments(input);
          const written = escapes ? plain.replace(/[^\x20-\x7e]/g, (one) => escaped(one)) : plain;
          const pieces: string[] = [];
          for (let at = 0, turn = 0; at < written.length; turn++) {
            const size = sizes[turn % sizes.length] ?? 1;
            pieces.push(written.slice(at, at + size));
            at += size;
          }
          expect(decode(pieces)).toBe(input);
        },
      ),
    );
  });

  it.each([
    ['{"input": "a\nb"}', 'a\nb'],
    [' { "input" : "" } ', ''],
    ['{"other":"a"}', '{"other":"a"}'],
    ['plain text', 'plain text'],
    ['{"input', '{"input'],
    ['{"input":"a\\', 'a'],
    ['{"input":"a","more":"b"}', 'a'],
    ['', ''],
  ])('reads what a model wrote: %j', (written, text) => {
    expect(decode([written])).toBe(text);
    expect(decode([...written])).toBe(text);
  });
});

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
