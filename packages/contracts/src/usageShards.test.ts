import { expect, it } from 'vitest';
import { USAGE_SHARDS, usageShard } from './usageShards.ts';

it.each([
  ['numbered', (at: number) => `principal-${at}`],
  ['padded', (at: number) => `svc-${String(at).padStart(6, '0')}`],
  ['even', (at: number) => `u${2 * at}`],
  ['of other scripts', (at: number) => `пользователь ${at}`],
])('a principal always has the same shard, and principals are spread evenly over all: %s ids', (_, idOf) => {
  const counts = Array.from({ length: USAGE_SHARDS }, () => 0);
  for (let at = 0; at < 1_000; at++) {
    const shard = usageShard(idOf(at));
    expect(usageShard(idOf(at))).toBe(shard);
    counts[shard] = (counts[shard] ?? 0) + 1;
  }
  const even = 1_000 / USAGE_SHARDS;
  for (const count of counts) {
    expect(count).toBeGreaterThan(even * 0.8);
    expect(count).toBeLessThan(even * 1.2);
  }
});
