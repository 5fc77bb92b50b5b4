import { expect, it } from 'vitest';
import { USAGE_SHARDS, usageShard } from './usageShards.ts';

it('a bucket always has the same shard, and buckets are spread evenly over all shards', () => {
  expect(usageShard({ policyId: 'pol_1', subject: 'principal:ada' })).toBe(
    usageShard({ policyId: 'pol_1', subject: 'principal:ada' }),
  );
  const counts = Array.from({ length: USAGE_SHARDS }, () => 0);
  for (let i = 0; i < 1_000; i++) {
    const shard = usageShard({ policyId: 'pol_1', subject: `principal:${i}` });
    counts[shard] = (counts[shard] ?? 0) + 1;
  }
  for (const count of counts) expect(count).toBeGreaterThan(150);
});
