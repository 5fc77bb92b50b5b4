import { create } from '@bufbuild/protobuf';
import { bucketKey } from '@weighbridge/budget';
import { BucketRefSchema } from '@weighbridge/contracts';
import { createMetrics } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { openTestUsageLog } from '../test/usageLog.ts';
import { HeartbeatState } from './control/heartbeatState.ts';
import { createLimits } from './limits.ts';

it('calls for leases only after the ends of earlier attempts are in the spool', async () => {
  const { spool, close } = await openTestUsageLog();
  const settledBy: bigint[] = [];
  const { budget } = createLimits({
    async lease() {
      settledBy.push(spool.own.lastN(0));
      throw new Error('the control plane is away');
    },
    spool,
    heartbeats: new HeartbeatState(),
    isLive: () => true,
    metrics: createMetrics(),
  });
  const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
  const policy = {
    bucket,
    bucketKey: bucketKey(bucket),
    isHard: false,
    isGoverning: true,
    windowEndMs: undefined,
    enforcement: 'enforce' as const,
  };
  const bytes = Buffer.from('part of an event');
  spool.begin({ eventId: 'a', shard: 0, reserveNanoUsd: 1n, head: bytes }).settle(bytes);
  expect(spool.own.lastN(0)).toBe(0n);
  await expect(budget.reserve([policy], 1n, { showsParentFigures: false })).rejects.toMatchObject({
    code: 'budget_unavailable',
  });
  expect(settledBy[0]).toBe(1n);
  await close();
});
