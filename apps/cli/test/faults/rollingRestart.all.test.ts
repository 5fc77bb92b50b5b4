import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import type { Cluster } from './cluster.ts';
import { expectReconciled } from './reconciliation.ts';
import { replace, startRollout, startSdkLoad } from './rollout.ts';

const SEED = 20_261_124;
const AT_ONCE = 6;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startRollout();
});
afterAll(() => cluster?.close());

describe('24: a rolling restart behind a balancer that follows readiness', () => {
  it('fails no request of an SDK without retries, and loses no event', async () => {
    const budget = {
      name: 'row-24',
      limit_micro_usd: 50_000_000,
      window: 'month',
      counter_scope: 'principal',
    };
    const policy = await manage(cluster, 'POST', '/api/v1/policies', { body: budget });
    const principal = { policy_id: policy.body.id };
    const put = await manage(cluster, 'PUT', '/api/v1/principals/rolling', { body: principal });
    expect(put).toMatchObject({ status: expect.toSatisfy((status) => status < 300), body: principal });
    const caller = await cluster.caller('rolling');
    const load = startSdkLoad({ cluster, caller, seed: SEED, atOnce: AT_ONCE });
    // As in an upgrade: one process of each app at a time, all apps at once.
    for (const at of [0, 1]) {
      const before = load.sent.length;
      await eventually(() => expect(load.sent.length).toBeGreaterThan(before + 5 * AT_ONCE));
      const { proxies, controlPlanes, workers } = cluster;
      const apps = [proxies[at], controlPlanes[at], workers[at]].filter((app) => app !== undefined);
      expect(apps.length).toBe(3);
      await Promise.all(apps.map((app) => replace(cluster, app)));
    }
    await load.stop();
    expect(load.failures).toEqual([]);
    expect(load.issued).toBeGreaterThan(0);
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 24, behind balancers');
    expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0, lost: 0n });
  });
});
