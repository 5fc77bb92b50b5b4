import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { Caller, Cluster } from './cluster.ts';

/** A caller whose principal has its own policy, of 50 USD a month. */
export async function budgetedCaller(cluster: Cluster, name: string): Promise<Caller> {
  const body = { name, limit_micro_usd: 50_000_000, window: 'month', counter_scope: 'principal' };
  const policy = await manage(cluster, 'POST', '/api/v1/policies', { body });
  expect(policy.status).toBe(201);
  const put = await manage(cluster, 'PUT', `/api/v1/principals/${name}`, {
    body: { policy_id: policy.body.id },
  });
  expect(put.status).toBeLessThan(300);
  return await cluster.caller(name);
}
