import fc from 'fast-check';
import { expect, it } from 'vitest';
import { EventsToArray } from './eventsToArray.ts';

const EVENTS = [
  'data: {"a":[1,"x\\n,"]}\r\n\r\n',
  'event: e\ndata:{"b":2}\n\n',
  ': a comment\r\rdata: {"c":\rdata: 3}\r\r',
  'id: 1\n\n',
  'data: "ä"\r\n\r\n',
];
const VALUES = [{ a: [1, 'x\n,'] }, { b: 2 }, { c: 3 }, 'ä'];

function converted(pieces: readonly Buffer[], last?: string): unknown {
  const array = new EventsToArray();
  return JSON.parse(pieces.map((piece) => array.push(piece).toString('latin1')).join('') + array.end(last));
}

it('makes one array of the values of events, however the bytes are cut', () => {
  const whole = Buffer.from(EVENTS.join(''));
  const expected = JSON.parse(Buffer.from(JSON.stringify(VALUES)).toString('latin1'));
  fc.assert(
    fc.property(fc.array(fc.nat(whole.length), { maxLength: 12 }), (cuts) => {
      const at = [0, ...cuts.toSorted((a, b) => a - b), whole.length];
      const pieces = at.slice(1).map((end, index) => whole.subarray(at[index], end));
      expect(converted(pieces)).toEqual(expected);
    }),
  );
});

it('is an array without any, and may end with one more', () => {
  expect(converted([])).toEqual([]);
  expect(converted([], '{"error":1}')).toEqual([{ error: 1 }]);
  expect(converted([Buffer.from('data: 1\n\n')], '2')).toEqual([1, 2]);
});
