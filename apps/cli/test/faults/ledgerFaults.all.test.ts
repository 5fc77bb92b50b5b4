import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { readProducerKey, UsageBatchSchema, UsageEventSchema } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { signBatch } from '@weighbridge/usage';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { budgetedCaller } from './budgetedCaller.ts';
import { type Cluster, startCluster } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { createLoad, type SentRequest } from './load.ts';
import { randomFrom } from './random.ts';
import { expectReconciled, inWords, reconcile } from './reconciliation.ts';
import { eventsOf, messagesOf, numberOf } from './streamMessages.ts';

const SEED = 20_261_122;
/** What a busy machine takes. */
const PATIENT = { timeoutMs: 60_000 };

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
  it('2: frozen in the middle of a transaction, holds up no lease', async () => {
    const caller = await budgetedCaller(cluster, 'row-2-frozen');
    const [holder, other] = cluster.proxies.map((one) =>
      createLoad({ caller, seed: SEED, series: `${one.name}-`, proxies: [one], atOnce: 1 }),
    );
    if (!holder || !other) throw new Error('there are two proxies');
    await holder.send(1);
    await cluster.settled();
    const release = await cluster.postgres?.holdBuckets();
    await holder.send(1);
    await eventually(
      async () => expect(await cluster.postgres?.waitingWriters()).toBeGreaterThan(0),
      PATIENT,
    );
    for (const worker of cluster.workers) worker.freeze();
    // What the worker waited for is done now, and it can't go on.
    await release?.();
    await eventually(async () => {
      await other.send(1);
      expect(other.sent.at(-1)?.end).toBe('whole');
    });
    for (const worker of cluster.workers) worker.thaw();
    await expectReconciled(cluster, caller, [...holder.sent, ...other.sent], 'row 2');
    const failed = cluster.workers.filter((worker) => worker.output().includes('failed to record usage'));
    expect(failed).toHaveLength(1);
  });

  it('7: charges a message once that is sent again after the stream forgot its id', async () => {
    const caller = await cluster.caller('row-7');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
    const captured = cluster.nats.capture();
    await load.send(100);
    await cluster.settled();
    await captured.stop();
    const [one] = captured.messages;
    if (!one) throw new Error('nothing was published');
    expect(await cluster.nats.publish(one, one.messageId)).toBe(true);
    // After a restart, the stream knows only the ids of stored messages, and these were all handled.
    await cluster.nats.kill();
    await cluster.nats.start();
    for (const message of captured.messages)
      expect(await cluster.nats.publish(message, message.messageId)).toBe(false);
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 7');
    expect(figures).toMatchObject({ exactRows: 100, estimatedRows: 0 });
  });

  it('8: has exact sums after commits of unknown outcome and after Postgres was killed and restarted', async () => {
    const postgres = cluster.postgres;
    if (!postgres) throw new Error('the cluster has not its own Postgres');
    const caller = await cluster.caller('row-8');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
    for (const how of ['answer lost', 'never sent'] as const) {
      for (const worker of cluster.workers) await worker.inject({ commit: { how, times: 2 } });
      await load.send(60);
      await eventually(async () => {
        const fired = await Promise.all(cluster.workers.map((worker) => worker.fired()));
        expect(fired.flat()).toContain(`COMMIT ${how}`);
      });
      for (const worker of cluster.workers) await worker.inject({});
    }
    for (const fail of [postgres.crashWriter, postgres.restart]) {
      const release = await postgres.holdBuckets();
      await load.send(40);
      await eventually(async () => expect(await postgres.waitingWriters()).toBeGreaterThan(0), PATIENT);
      await fail();
      await release();
    }
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 8');
    expect(figures).toMatchObject({ exactRows: 200, estimatedRows: 0 });
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

  it('18: a rebuild under load finds no difference, and corrects a planted one exactly', async () => {
    const postgres = cluster.postgres;
    if (!postgres) throw new Error('the cluster has not its own Postgres');
    const caller = await cluster.caller('row-18');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy], atOnce: 4 });
    const rebuild = async (apply: boolean) => {
      const { status, body } = await manage(cluster, 'POST', '/api/v1/ledger/rebuild', { body: { apply } });
      expect(status).toBe(200);
      return body;
    };
    const running = load.start();
    await eventually(() => expect(load.sent.length).toBeGreaterThan(50), PATIENT);
    for (let at = 0; at < 5; at++) expect((await rebuild(false)).differing).toEqual([]);
    const { rows } = await sql<{ bucket_key: string }>`
      UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + 777
      WHERE bucket_key LIKE ${`%principal:${caller.name}`} RETURNING bucket_key`.execute(cluster.db);
    expect(rows).toHaveLength(1);
    const wrong = rows.map((row) => ({ bucket: row.bucket_key, difference_nano_usd: '-777' }));
    expect((await rebuild(false)).differing).toEqual(wrong);
    // A batch is about to be counted while the rebuild compares, and is counted before the rebuild writes.
    const release = await postgres.holdBuckets();
    await eventually(async () => expect(await postgres.waitingWriters()).toBeGreaterThan(0), PATIENT);
    const rebuilding = rebuild(true);
    await eventually(async () => {
      expect(await postgres.waitingWriters('weighbridge-control-plane')).toBe(1);
    }, PATIENT);
    await release();
    expect((await rebuilding).differing).toEqual(wrong);
    expect((await rebuild(false)).differing).toEqual([]);
    const whileRebuilding = load.sent.length;
    await eventually(() => expect(load.sent.length).toBeGreaterThan(whileRebuilding + 50), PATIENT);
    await running.stop();
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 18');
    expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0 });
  });

  it('17: reports an event that never arrives as a gap, and no spend counts as complete', async () => {
    const lossy = cluster.proxies[1] as FaultyApp;
    const caller = await cluster.caller('row-17');
    await stopWorkers();
    const load = createLoad({ caller, seed: SEED, proxies: [lossy], atOnce: 2 });
    // A message at least for each part: what is published before the next part begins is not added to.
    for (const count of [14, 13, 13]) {
      await load.send(count);
      await messagesOf(cluster.nats, load.sent);
    }
    const messages = await messagesOf(cluster.nats, load.sent);
    await lossy.stop('SIGKILL');
    await rm(cluster.spoolDir(lossy), { recursive: true });
    const missing = messages[messages.length >> 1];
    if (!missing) throw new Error('nothing was published');
    await cluster.nats.remove(missing.sequence);
    await startWorkers();

    const lost = new Set(eventsOf(missing).map(numberOf));
    const figures = await expectReconciled(
      cluster,
      caller,
      load.sent.filter(({ number }) => !lost.has(number)),
      'row 17',
    );
    expect(figures).toMatchObject({ exactRows: 40 - lost.size, estimatedRows: 0 });
    // Makes the gaps older than the minute in which events out of order may arrive.
    const { rows } = await sql`
      UPDATE producer_shards SET gap_since = gap_since - interval '2 minutes' WHERE gap_since IS NOT NULL
      RETURNING shard`.execute(cluster.db);
    expect(rows).toHaveLength(1);
    await eventually(
      async () => {
        const { body: report } = await manage(cluster, 'GET', '/api/v1/usage', { key: caller.key });
        expect(report.principal_spent_complete).toBe(false);
      },
      { intervalMs: 100 },
    );
    await eventually(
      async () => {
        const metrics = await (await fetch(`${cluster.workers[0]?.metricsUrl}/metrics`)).text();
        expect(metrics).toMatch(/^weighbridge_ledger_gaps 1$/m);
      },
      { intervalMs: 500 },
    );
  });

  it('3: counts each message once that is delivered 1 to 5 times, shuffled, to 4 workers', async () => {
    const random = randomFrom(SEED);
    const callers = await Promise.all(['a', 'b', 'c', 'd'].map((one) => cluster.caller(`row-3${one}`)));
    await cluster.addWorker();
    await cluster.addWorker();
    await stopWorkers();
    const { lastSequence: before } = await cluster.nats.state();
    const loads = callers.map((caller) => createLoad({ caller, seed: SEED, proxies: [proxy], atOnce: 4 }));
    await Promise.all(loads.map((load) => load.send(75)));
    const originals = await messagesOf(
      cluster.nats,
      loads.flatMap(({ sent }) => sent),
    );
    await cluster.nats.manager.streams.purge('USAGE_EVENTS');
    const deliveries = random.shuffled(
      originals.flatMap((message) => Array.from({ length: 1 + random.integer(5) }, () => message)),
    );
    for (const message of deliveries) expect(await cluster.nats.publish(message)).toBe(false);
    expect((await cluster.nats.state()).lastSequence).toBeGreaterThan(before + 2 * originals.length);
    await startWorkers();
    await cluster.settled();
    for (const [at, caller] of callers.entries()) {
      const reconciliation = await reconcile(cluster, caller, loads[at]?.sent ?? []);
      process.stdout.write(`row 3: ${inWords(reconciliation)}\n`);
      expect(reconciliation).toMatchObject({ violations: [], figures: { exactRows: 75, estimatedRows: 0 } });
    }
  });
});
