import { expect, it } from 'vitest';
import { UnackedBatches } from './unackedBatches.ts';

const batch = (firstN: number, lastN: number, sequence: number) => ({
  firstN: BigInt(firstN),
  lastN: BigInt(lastN),
  sequence: BigInt(sequence),
});

it('gives the number up to which all batches are handled, wherever resent batches are in the stream', () => {
  const unconfirmed = new UnackedBatches();
  unconfirmed.restart('a');
  for (const one of [batch(5, 8, 11), batch(9, 9, 12), batch(1, 4, 20)]) unconfirmed.add(one);
  expect(unconfirmed.handledN(19n)).toBeUndefined();
  expect(unconfirmed.handledN(20n)).toBe(9n);
  unconfirmed.forgetUpTo(6n);
  expect([unconfirmed.size, unconfirmed.handledN(11n), unconfirmed.highestSequence]).toEqual([2, 8n, 20n]);
  unconfirmed.restart('b');
  expect([unconfirmed.size, unconfirmed.highestSequence, unconfirmed.streamId]).toEqual([0, 0n, 'b']);
});

it('has bounded memory however much is unacked, and never reports a batch as handled too early', () => {
  const unconfirmed = new UnackedBatches();
  unconfirmed.restart('a');
  for (let n = 1; n <= 100_000; n++) unconfirmed.add(batch(n, n, n));
  expect(unconfirmed.size).toBeLessThanOrEqual(4_096);
  const handled = unconfirmed.handledN(50_000n) ?? 0n;
  expect(handled).toBeLessThanOrEqual(50_000n);
  expect(handled).toBeGreaterThan(49_900n);
  expect(unconfirmed.handledN(100_000n)).toBe(100_000n);
});
