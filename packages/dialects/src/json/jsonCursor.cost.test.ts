import { expect, it } from 'vitest';
import { JsonCursor } from './jsonCursor.ts';

/** Cut short wherever a reader may look for one more byte. */
const CUT = [
  '[',
  '{',
  '{"a"',
  '{"a":',
  '{"a":12',
  '{"a":-',
  '{"a":1.',
  '{"a":tru',
  '{"a":"x',
  '{"a":[1,',
  '"\\u12',
];
const BODIES = ['{},', '"ab",', '{"k":0},'].map((item) =>
  Buffer.from(`[${item.repeat(2_000_000 / item.length)}0]`),
);
const TRIES = 12;
const ROUNDS = 20_000;
const MORE_ROUNDS = 20;
const MAX_RATIO = 1.5;

function leastMs(bytes: Buffer): number {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < TRIES; tries++) {
    const cursor = new JsonCursor(bytes);
    const began = performance.now();
    cursor.skipValue();
    least = Math.min(least, performance.now() - began);
  }
  return least;
}

it('reading bodies that are cut short makes reading others no slower', () => {
  const before = BODIES.map(leastMs);
  let refused = 0;
  for (let round = 0; round < ROUNDS; round++) {
    for (const text of CUT) {
      try {
        new JsonCursor(Buffer.from(text)).skipValue();
      } catch {
        refused++;
      }
    }
  }
  expect(refused).toBe(ROUNDS * CUT.length);
  // Something else may run: what it takes is the least of all rounds. A read beyond the end makes it twice as long from then on.
  let after = BODIES.map(leastMs);
  const worst = () => Math.max(...after.map((ms, at) => ms / (before[at] ?? 0)));
  for (let round = 0; round < MORE_ROUNDS && worst() > MAX_RATIO; round++) {
    after = BODIES.map((bytes, at) => Math.min(after[at] ?? 0, leastMs(bytes)));
  }
  expect(worst()).toBeLessThan(MAX_RATIO);
});
