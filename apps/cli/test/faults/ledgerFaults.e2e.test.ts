import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { readProducerKey, UsageBatchSchema, UsageEventSchema } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { signBatch } from '@weighbridge/usage';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Cluster, startCluster } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { createLoad, type SentRequest } from './load.ts';
import { randomFrom } from './random.ts';
import { expectReconciled } from './reconciliation.ts';
import { messagesOf, numberOf } from './streamMessages.ts';

const SEED = 20_261_122;

let cluster: Cluster;
let proxy: FaultyApp;

beforeAll(async () => {
  cluster = await startCluster({ workers: 2, proxies: 2, ownPostgres: true });
  proxy = cluster.proxies[0] as FaultyApp;
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

async function stopWorkers(): Promise<void> {
  await Promise.all(cluster.workers.map((worker) => worker.stop()));
}

async function startWorkers(): Promise<void> {
  await Promise.all(cluster.workers.map((worker) => worker.start()));
}

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

  it('13: records 499 of 500 events, quarantines the unreadable one, and marks the spend of its principal as incomplete', async () => {
    const caller = await cluster.caller('row-13');
    await stopWorkers();
    const load = createLoad({ caller, seed: SEED, proxies: [proxy], atOnce: 16 });
    await load.send(500);
    const messages = await messagesOf(cluster.nats, load.sent);
    // Its proxy sends nothing a second time while the messages are changed.
    await proxy.stop('SIGKILL');
    const message = randomFrom(SEED).pick(messages);
    const batch = fromBinary(UsageBatchSchema, message.payload);
    const at = batch.events.length >> 1;
    const poison = fromBinary(UsageEventSchema, batch.events[at] as Uint8Array);
    poison.costNanoUsd = -1n;
    batch.events[at] = toBinary(UsageEventSchema, poison);
    await cluster.nats.remove(message.sequence);
    // As if the proxy had a mistake: only its key makes metering read it.
    const key = readProducerKey(await readFile(join(cluster.spoolDir(proxy), 'producer.key'), 'utf8'));
    expect(key?.producerId).toBe(batch.producerId);
    await cluster.nats.publish({ ...message, payload: signBatch(batch, key) });
    await startWorkers();
    await eventually(async () =>
      expect(await cluster.nats.deliveries()).toMatchObject({ waiting: 0, unacknowledged: 0 }),
    );
    await proxy.start();

    const isOther = ({ number }: SentRequest) => number !== numberOf(poison);
    const figures = await expectReconciled(cluster, caller, load.sent.filter(isOther), 'row 13');
    expect(figures).toMatchObject({ exactRows: 499, spentComplete: false });
    const { body } = await manage(cluster, 'GET', '/api/v1/quarantine?state=held');
    expect(body.data).toHaveLength(1);
    const other = await cluster.caller('row-13-other');
    const { body: report } = await manage(cluster, 'GET', '/api/v1/usage', { key: other.key });
    expect(report.principal_spent_complete).toBe(true);
  });
});
