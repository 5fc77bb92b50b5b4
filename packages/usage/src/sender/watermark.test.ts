import { expect, it } from 'vitest';
import { Watermark } from './watermark.ts';

function epoch() {
  const lastN = [0n, 0n, 0n, 0n];
  const ackedN = [0n, 0n, 0n, 0n];
  return {
    shards: lastN.length,
    lastN: (shard: number) => lastN[shard] ?? 0n,
    ackedN: (shard: number) => ackedN[shard] ?? 0n,
    settle: (shard: number) => {
      lastN[shard] = (lastN[shard] ?? 0n) + 1n;
    },
    ack: (shard: number, n: bigint) => {
      ackedN[shard] = n;
    },
  };
}

it('is now where everything is in the ledger', () => {
  const own = epoch();
  const watermark = new Watermark(own, 1_000);
  expect(watermark.ageMs(1_500)).toBe(0);
  own.settle(2);
  own.ack(2, 1n);
  expect(watermark.ageMs(9_000)).toBe(0);
});

it('is the latest moment up to which everything settled is in the ledger', () => {
  const own = epoch();
  const watermark = new Watermark(own, 0);
  watermark.ageMs(100);
  own.settle(0);
  expect(watermark.ageMs(200)).toBe(100);
  own.settle(3);
  expect(watermark.ageMs(300)).toBe(200);
  own.ack(3, 1n);
  expect(watermark.ageMs(400)).toBe(300);
  own.ack(0, 1n);
  own.settle(1);
  expect(watermark.ageMs(500)).toBe(100);
});

it('stays correct, though coarser, with bounded memory while nothing is acked for hours', () => {
  const own = epoch();
  const watermark = new Watermark(own, 0);
  for (let at = 1; at <= 20_000; at++) {
    own.settle(0);
    expect(watermark.ageMs(at * 500)).toBe(at * 500);
  }
  own.ack(0, 10_000n);
  const ageMs = watermark.ageMs(20_000 * 500);
  expect(ageMs).toBeGreaterThanOrEqual(10_000 * 500);
  expect(ageMs).toBeLessThan(10_100 * 500);
});
