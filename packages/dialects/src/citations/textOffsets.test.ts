import fc from 'fast-check';
import { expect, it } from 'vitest';
import { TextOffsets } from './textOffsets.ts';

const TEXTS = fc.oneof(fc.string({ unit: 'binary', maxLength: 40 }), fc.string({ maxLength: 20 }));

it('counts code points, bytes and units alike, wherever they are', () => {
  fc.assert(
    fc.property(TEXTS, (text) => {
      const offsets = new TextOffsets(text);
      const characters = [...text];
      expect(offsets.characters).toBe(characters.length);
      expect(offsets.bytes).toBe(Buffer.byteLength(text));
      for (let at = 0; at <= characters.length; at++) {
        const before = characters.slice(0, at).join('');
        expect(offsets.byteAt(at)).toBe(Buffer.byteLength(before));
        expect(offsets.characterAtByte(Buffer.byteLength(before))).toBe(at);
        expect(offsets.characterAtUnit(before.length)).toBe(at);
        expect(offsets.slice(0, at)).toBe(before);
      }
    }),
  );
});

it('takes an offset within a character for its beginning', () => {
  const offsets = new TextOffsets('a\u{1f600}b');
  expect([0, 1, 2, 3, 4, 5, 6].map((byte) => offsets.characterAtByte(byte))).toEqual([0, 1, 1, 1, 1, 2, 3]);
  expect(offsets.characterAtByte(-1)).toBe(0);
  expect(offsets.characterAtByte(100)).toBe(3);
});
