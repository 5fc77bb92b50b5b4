import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eventData, SseSplitter } from './sseSplitter.ts';

describe('SseSplitter', () => {
  it('returns the same events wherever the chunks end, and loses no byte', () => {
    const line = fc.constantFrom('data: {"a":"é😀"}', 'data:x', ': ping', 'event: error', 'id: 1');
    const event = fc.tuple(
      fc.array(line, { minLength: 1, maxLength: 3 }),
      fc.constantFrom('\n', '\r\n', '\r'),
    );
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 8 }),
        fc.constantFrom('', 'data: half'),
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        (list, tail, sizes) => {
          const events = list.map(([lines, newline]) => lines.map((one) => one + newline).join('') + newline);
          const bytes = Buffer.from(events.join('') + tail);
          const splitter = new SseSplitter();
          const seen: string[] = [];
          for (let at = 0; at < bytes.length; ) {
            const size = sizes.next().value;
            seen.push(...splitter.push(bytes.subarray(at, at + size)).map(String));
            at += size;
          }
          // The last CR could have been the first half of a CR LF.
          const all = [...seen, splitter.rest().toString()].filter((text) => text !== '');
          expect(all).toEqual([...events, tail].filter((text) => text !== ''));
        },
      ),
    );
  });

  it('joins the data lines of an event, with or without a space after the colon', () => {
    expect(eventData(Buffer.from('event: x\r\ndata: a\r\ndata:b\r\n\r\n'))?.toString()).toBe('a\nb');
    expect(eventData(Buffer.from('data:a\rdata: b\r\r'))?.toString()).toBe('a\nb');
    expect(eventData(Buffer.from(': ping\n\n'))).toBeUndefined();
  });
});
