import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonCursor } from './jsonCursor.ts';

/** A JSON string, each of whose characters may be escaped. */
const written = fc
  .array(fc.tuple(fc.constantFrom('t', 'y', 'p', 'e', '"', '\\', 'é'), fc.boolean()), { maxLength: 6 })
  .map((characters) => {
    const one = ([character, isEscaped]: [string, boolean]) =>
      isEscaped
        ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
        : JSON.stringify(character).slice(1, -1);
    return `"${characters.map(one).join('')}"`;
  });

describe('a cursor at a key', () => {
  it('tells whether it is one of some names, however it is written, and moves to its value', () => {
    fc.assert(
      fc.property(fc.oneof(written, fc.constantFrom('"type"', '"typ"', '"types"')), (key) => {
        const [asked, read] = [1, 2].map(() => new JsonCursor(Buffer.from(`${key} : 1`)));
        expect(asked?.isKeyOf(['typ', 'type'])).toBe(['typ', 'type'].includes(read?.key() ?? ''));
        expect(asked?.at).toBe(read?.at);
      }),
      { numRuns: 500 },
    );
  });
});
