import { expect, it } from 'vitest';
import { atMost } from './atMost.ts';

it('runs no more at once than allowed, and more once one has ended or failed', async () => {
  const limited = atMost(2, () => new Error('too many'));
  const ends: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const hold = () => limited(() => new Promise<void>((resolve, reject) => ends.push({ resolve, reject })));
  const [one, two] = [hold(), hold()];
  await expect(hold()).rejects.toThrow('too many');
  ends[0]?.resolve();
  await one;
  const three = hold();
  await expect(hold()).rejects.toThrow('too many');
  ends[1]?.reject(new Error('it failed'));
  await expect(two).rejects.toThrow('it failed');
  await expect(limited(async () => 4)).resolves.toBe(4);
  ends[2]?.resolve();
  await three;
  expect(ends).toHaveLength(3);
});
