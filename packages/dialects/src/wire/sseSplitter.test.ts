import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../../testing/src/linearTime.ts';
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

  it('loses no byte of any stream, and reads the same data from it wherever the chunks end', () => {
    const bytes = fc.array(fc.constantFrom('\n', '\r', '\r\n', 'data: x', 'data:', 'y', ' '), {
      maxLength: 30,
    });
    const dataOf = (events: readonly Buffer[]) =>
      events.flatMap((event) => eventData(event)?.toString() ?? []);
    fc.assert(
      fc.property(bytes, fc.infiniteStream(fc.integer({ min: 1, max: 5 })), (parts, sizes) => {
        const stream = Buffer.from(parts.join(''));
        const whole = new SseSplitter();
        const expected = [...whole.push(stream), whole.rest()];
        const splitter = new SseSplitter();
        const seen: Buffer[] = [];
        for (let at = 0; at < stream.length; ) {
          const size = sizes.next().value;
          seen.push(...splitter.push(stream.subarray(at, at + size)));
          at += size;
        }
        seen.push(splitter.rest());
        expect(Buffer.concat(seen)).toEqual(stream);
        expect(dataOf(seen)).toEqual(dataOf(expected));
      }),
    );
  });

  it.each([
    ['line feeds', '\n'],
    ['carriage returns', '\r'],
    ['empty data lines', 'data:\n'],
    ['empty data lines that end in CR', 'data:\r'],
    ['events of one byte', 'x\n\n'],
  ])('splits %s in linear time, as one chunk or as many', async (_what, unit) => {
    for (const chunkBytes of [Number.POSITIVE_INFINITY, 64 * 1024, 16]) {
      await expectLinear(256 * 1024, (size) => {
        const stream = Buffer.from(unit.repeat(Math.floor(size / unit.length)));
        return () => {
          const splitter = new SseSplitter();
          let bytes = 0;
          for (let at = 0; at < stream.length; at += chunkBytes) {
            for (const event of splitter.push(stream.subarray(at, at + chunkBytes))) {
              eventData(event);
              bytes += event.length;
            }
          }
          const rest = splitter.rest();
          eventData(rest);
          expect(bytes + rest.length).toBe(stream.length);
        };
      });
    }
  });

  it('passes an event that is too large in pieces, holding no more than its limit, and then reads on', () => {
    const limitBytes = 1024 * 1024;
    let usedBytes = 0;
    const splitter = new SseSplitter({
      tryTake: (bytes) => {
        const fits = usedBytes + bytes <= limitBytes;
        if (fits) usedBytes += bytes;
        return fits;
      },
      release: (bytes) => {
        usedBytes -= bytes;
      },
    });
    const large = Buffer.from(`data: ${'x'.repeat(3 * 1024 * 1024)}\n\n`);
    const seen: Buffer[] = [];
    const pieces: Buffer[] = [];
    let held = 0;
    for (const stream of [large, Buffer.from('data: small\n\n')]) {
      for (let at = 0; at < stream.length; at += 10_000) {
        seen.push(...splitter.push(stream.subarray(at, at + 10_000)));
        pieces.push(...splitter.pieces);
        held = Math.max(held, usedBytes);
      }
    }
    expect(held).toBeGreaterThan(900_000);
    expect(held).toBeLessThanOrEqual(limitBytes);
    expect(usedBytes).toBe(0);
    expect(Buffer.concat(pieces).equals(large)).toBe(true);
    expect(seen.filter((event) => !pieces.includes(event)).map(String)).toEqual(['data: small\n\n']);
  });

  it('joins the data lines of an event, with or without a space after the colon', () => {
    expect(eventData(Buffer.from('event: x\r\ndata: a\r\ndata:b\r\n\r\n'))?.toString()).toBe('a\nb');
    expect(eventData(Buffer.from('data:a\rdata: b\r\r'))?.toString()).toBe('a\nb');
    expect(eventData(Buffer.from(': ping\n\n'))).toBeUndefined();
  });
});
