import { expect, test } from 'vitest';
import { expectLinear } from './linearTime.ts';

/** Looks at each pair of `size` numbers, or only at each number. */
function pairs(size: number): number {
  let sum = 0;
  for (let a = 0; a < size; a++) for (let b = 0; b < size; b++) sum += a ^ b;
  return sum;
}
const numbers = (size: number) => {
  let sum = 0;
  for (let a = 0; a < 1_000 * size; a++) sum += a ^ size;
  return sum;
};

test('linear work passes, of any length', async () => {
  for (const size of [80, 8_000]) await expectLinear(size, (count) => () => numbers(count));
});

test('constant work passes', async () => {
  await expectLinear(80_000, () => () => numbers(1_000));
});

test('quadratic work is noticed, also where most of the work is linear', async () => {
  const notLinear =
    /^An input of \d+ took [\d.]+ times as long as eight of an eighth: the work is not linear.$/;
  await expect(expectLinear(400, (count) => () => pairs(count))).rejects.toThrow(notLinear);
  const mixed = (size: number) => () => pairs(size) + numbers(size / 8);
  await expect(expectLinear(3_000, mixed)).rejects.toThrow(notLinear);
});

test('work that waits is measured to its end, and inputs may be made asynchronously', async () => {
  const slow = async (size: number) => () => new Promise((resolve) => setTimeout(resolve, size * size));
  await expect(expectLinear(8, slow)).rejects.toThrow('not linear');
});
