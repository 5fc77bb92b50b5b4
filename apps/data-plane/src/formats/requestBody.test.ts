import fc from 'fast-check';
import { expect, it } from 'vitest';
import { RequestBody } from './requestBody.ts';

/** A body in pieces that end at `cuts`. */
function inPieces(text: string, cuts: readonly number[]): RequestBody {
  const bytes = Buffer.from(text);
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return new RequestBody(at.slice(1).map((end, piece) => bytes.subarray(at[piece], end)));
}

/** Short ones are copied, long ones are not. */
const text = fc
  .tuple(fc.string({ unit: 'grapheme' }), fc.constantFrom(1, 20_000))
  .map(([some, times]) => some.repeat(times));
const cuts = fc.array(fc.nat(), { maxLength: 8 });

it('has the same bytes as one buffer, in a read, and in pieces', () => {
  fc.assert(
    fc.property(text, cuts, (text, cuts) => {
      const body = inPieces(text, cuts);
      expect(body.length).toBe(Buffer.byteLength(text));
      expect(body.read(String)).toBe(text);
      expect(Buffer.concat(body.pieces).toString()).toBe(text);
      expect(body.toBuffer().toString()).toBe(text);
      expect(body.read(String)).toBe(text);
    }),
    { numRuns: 50 },
  );
});

it('edits texts wherever the pieces end, and leaves the original unchanged', () => {
  fc.assert(
    fc.property(text, cuts, fc.array(fc.nat(), { maxLength: 6 }), (text, cuts, ends) => {
      const bytes = Buffer.from(text);
      const places = new Set(ends.map((end) => end % (bytes.length + 1)));
      const at = [...places].sort((a, b) => a - b);
      const edits = Array.from({ length: at.length >> 1 }, (_, n) => ({
        span: { start: at[2 * n] ?? 0, end: at[2 * n + 1] ?? 0 },
        text: `<${n}>`,
      }));
      let expected = Buffer.alloc(0);
      let from = 0;
      for (const { span, text } of edits) {
        expected = Buffer.concat([expected, bytes.subarray(from, span.start), Buffer.from(text)]);
        from = span.end;
      }
      expected = Buffer.concat([expected, bytes.subarray(from)]);
      const body = inPieces(text, cuts);
      // The order of the edits does not matter.
      const edited = body.withEdits(edits.toReversed());
      expect(Buffer.concat(edited.pieces).equals(expected)).toBe(true);
      expect(edited.length).toBe(expected.length);
      expect(body.toBuffer().equals(bytes)).toBe(true);
    }),
    { numRuns: 50 },
  );
});

it('does not copy a large body', () => {
  const bytes = Buffer.alloc(100_000, 'x');
  const [first, , last] = new RequestBody([bytes]).withEdits([
    { span: { start: 10_000, end: 10_010 }, text: 'y' },
  ]).pieces;
  for (const piece of [first, last]) expect(piece?.buffer).toBe(bytes.buffer);
});

it('joins what a large body begins with', () => {
  const bytes = Buffer.alloc(100_000, 'x');
  const edited = new RequestBody([bytes]).withEdits([{ span: { start: 10, end: 20 }, text: 'y' }]);
  expect(edited.pieces.map(({ length }) => length)).toEqual([11, 99_980]);
});
