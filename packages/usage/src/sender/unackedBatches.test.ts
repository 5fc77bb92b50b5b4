import { expect, it } from 'vitest';
import { UnackedBatches } from './unackedBatches.ts';

const batch = (firstN: number, lastN: number, sequence: number) => ({
  firstN: BigInt(firstN),
  lastN: BigInt(lastN),
  sequence: BigInt(sequence),
});

it('gives the number up to which all batches are handled, wherever resent batches are in the stream', () => {
  const unacked = new UnackedBatches();
  unacked.restart('a');
  for (const one of [batch(5, 8, 11), batch(9, 9, 12), batch(1, 4, 20)]) unacked.add(one);
  expect(unacked.handledN(19n)).toBeUndefined();
  expect(unacked.handledN(20n)).toBe(9n);
  unacked.forgetUpTo(6n);
  expect([unacked.size, unacked.handledN(11n), unacked.highestSequence]).toEqual([2, 8n, 20n]);
  unacked.restart('b');
  expect([unacked.size, unacked.highestSequence, unacked.streamId]).toEqual([0, 0n, 'b']);
});

it('has bounded memory however much is unacked, and never reports a batch as handled too early', () => {
  const unacked = new UnackedBatches();
  unacked.restart('a');
  for (let n = 1; n <= 100_000; n++) unacked.add(batch(n, n, n));
  expect(unacked.size).toBeLessThanOrEqual(4_096);
  const handled = unacked.handledN(50_000n) ?? 0n;
  expect(handled).toBeLessThanOrEqual(50_000n);
  expect(handled).toBeGreaterThan(49_900n);
  expect(unacked.handledN(100_000n)).toBe(100_000n);
});
