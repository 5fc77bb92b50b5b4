import { expect, it } from 'vitest';
import { Losses } from './losses.ts';

it.each([198, 199, 200])('a long path ends on a whole character: %i before it', (length) => {
  const losses = new Losses();
  losses.add(`${'x'.repeat(length)}\u{1f600}${'y'.repeat(50)}`, 'dropped', 'unknown field');
  const [loss] = losses.listed;
  expect(loss?.path).toBe(`${'x'.repeat(length)}${length === 198 ? '\u{1f600}' : ''}`.slice(0, 200));
});
