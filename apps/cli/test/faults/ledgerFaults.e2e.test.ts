import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { createLoad } from './load.ts';
import { expectReconciled } from './reconciliation.ts';

const SEED = 20_261_122;

let cluster: Cluster;
let proxy: FaultyApp;

beforeAll(async () => {
  cluster = await startCluster({ workers: 2, proxies: 2, ownPostgres: true });
  proxy = cluster.proxies[0] as FaultyApp;
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

describe('metering', () => {
  it('2: killed between COMMIT and acknowledgement, counts redelivered messages only once', async () => {
    const caller = await cluster.caller('row-2');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
    for (const worker of cluster.workers) await worker.inject({ commit: { how: 'killed after', times: 1 } });
    await load.send(100);
    const [killed] = await Promise.race(
      cluster.workers.map(async (one) => [one, await one.ended()] as const),
    );
    expect(await killed.fired()).toEqual(['COMMIT killed after']);
    // The other workers too, so that none takes the message early.
    await Promise.all(cluster.workers.map((worker) => worker.stop('SIGKILL')));
    const before = await cluster.nats.deliveries();
    expect(before.unacknowledged).toBeGreaterThan(0);
    await cluster.nats.redeliver();
    await cluster.restore();
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 2');
    const { done } = await cluster.nats.deliveries();
    expect(done).toBeGreaterThanOrEqual(before.done + before.waiting + before.unacknowledged);
    expect(figures).toMatchObject({ exactRows: 100, estimatedRows: 0 });
  });
});
