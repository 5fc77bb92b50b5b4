import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Caller, type Cluster, startCluster } from './cluster.ts';
import { createLoad, type Load, ordinary, slowStream } from './load.ts';
import { expectReconciled } from './reconciliation.ts';

const SEED = 20_261_123;
/** How long a load balancer may take to notice that a proxy stops. */
const LOAD_BALANCER_MS = 500;
const PATIENT = { timeoutMs: 60_000 };

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster({ proxies: 2, workers: 2 });
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

/** The requests at the vendor whose numbers have this prefix. */
function requestsOf(numbers: string): readonly unknown[] {
  return cluster.vendor.requests.filter(({ headers }) =>
    String(headers['x-client-request-id']).startsWith(numbers),
  );
}

describe('operations under load', () => {
  it('20: a rotated key has one counter for its old and its new secret', async () => {
    const budget = { name: 'row-20', limit_micro_usd: 10_000_000, window: 'month', counter_scope: 'key' };
    const policy = await manage(cluster, 'POST', '/api/v1/policies', { body: budget });
    const caller = await cluster.caller('row-20', { policy_id: policy.body.id });
    const { proxies } = cluster;
    const old = createLoad({ caller, seed: SEED, series: 'old', proxies, atOnce: 4 });
    const running = old.start();
    await old.send(40);
    const { status, body } = await manage(cluster, 'POST', `/api/v1/keys/${caller.keyId}/rotate`, {
      body: { grace_seconds: 300 },
    });
    expect(status).toBe(200);
    const rotated: Caller = { ...caller, key: String(body.key) };
    expect(rotated.key).not.toBe(caller.key);
    const byOldSecret = old.sent.length;
    const renewed = createLoad({ caller: rotated, seed: SEED, series: 'new', proxies, atOnce: 4 });
    await renewed.send(100);
    await eventually(() => expect(old.sent.length).toBeGreaterThan(byOldSecret + 20), PATIENT);
    await running.stop();
    const sent = [...old.sent, ...renewed.sent];
    expect(sent.map(({ end }) => end)).toEqual(Array(sent.length).fill('whole'));
    const figures = await expectReconciled(cluster, rotated, sent, 'row 20');
    expect(figures).toMatchObject({ exactRows: sent.length, estimatedRows: 0 });
  });

  it('24: restarting each app in turn by SIGTERM fails no request and loses nothing', async () => {
    const caller = await cluster.caller('row-24');
    const load = createLoad({
      caller,
      seed: SEED,
      proxies: cluster.proxies,
      nextRequest: (random) => (random.chance(0.3) ? slowStream(50, 50) : ordinary(random)),
    });
    const running = load.start();
    onTestFinished(() => running.stop());
    const streams: Load[] = [];
    for (const app of [...cluster.proxies, ...cluster.workers, cluster.controlPlane]) {
      await eventually(() => expect(load.sent.length).toBeGreaterThan(10), PATIENT);
      const before = load.sent.length;
      const proxies = cluster.proxies.filter((proxy) => proxy === app);
      const stream = createLoad({
        caller,
        seed: SEED,
        series: `${app.name}.`,
        proxies,
        nextRequest: () => slowStream(80, 50),
      });
      const streaming = stream.send(proxies.length);
      await eventually(() => expect(requestsOf(`row-24.${app.name}.`)).toHaveLength(proxies.length), PATIENT);
      app.takeOut();
      await sleep(LOAD_BALANCER_MS);
      const toldAt = performance.now();
      expect(await app.stop('SIGTERM')).toEqual({ code: 0, signal: null });
      await app.start();
      // All of them may be in a slow stream.
      await eventually(() => expect(load.sent.length).toBeGreaterThan(before), PATIENT);
      await streaming;
      expect(stream.sent.map(({ endedAt }) => endedAt > toldAt)).toEqual(proxies.map(() => true));
      streams.push(stream);
    }
    await running.stop();
    const sent = [load, ...streams].flatMap((one) => one.sent);
    expect(sent.filter(({ end }) => end !== 'whole')).toEqual([]);
    const figures = await expectReconciled(cluster, caller, sent, 'row 24');
    expect(figures).toMatchObject({ exactRows: sent.length, estimatedRows: 0 });
  });

  it('24: an app that is stopped fails its readiness, and accepts requests until its load balancer can have noticed', async () => {
    const caller = await cluster.caller('row-24-stopped');
    const [proxy] = cluster.proxies;
    if (!proxy) throw new Error('there is no proxy');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
    const serves = [
      {
        app: proxy,
        async request() {
          await load.send(10);
          expect(load.sent.map(({ end }) => end)).toEqual(Array(10).fill('whole'));
        },
      },
      {
        app: cluster.controlPlane,
        request: async () => expect((await manage(cluster, 'GET', '/api/v1/keys')).status).toBe(200),
      },
    ];
    for (const { app, request } of serves) {
      await app.stop();
      // Longer than a slow machine takes; the test does not wait for its end.
      await app.start({ SHUTDOWN_DELAY_MS: '600000' });
      process.kill(app.pid, 'SIGTERM');
      await eventually(async () => expect((await fetch(`${app.url}/readyz`)).status).toBe(503), PATIENT);
      await request();
      await app.stop('SIGKILL');
      await app.start({ SHUTDOWN_DELAY_MS: '0' });
    }
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 24, stopped');
    expect(figures).toMatchObject({ exactRows: 10, estimatedRows: 0 });
  });

  it('24: a control plane that is stopped finishes the requests in flight', async () => {
    const { controlPlane, db } = cluster;
    const inTheWay = await db.startTransaction().execute();
    onTestFinished(async () => {
      if (!inTheWay.isRolledBack) await inTheWay.rollback().execute();
    });
    await sql`LOCK TABLE keys IN ACCESS EXCLUSIVE MODE`.execute(inTheWay);
    const listed = manage(cluster, 'GET', '/api/v1/keys').catch((error: Error) => error);
    await eventually(async () => {
      const { rows } = await sql`
        SELECT FROM pg_stat_activity WHERE application_name = 'weighbridge-control-plane'
          AND datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%key_secrets%'`.execute(
        db,
      );
      expect(rows.length).toBeGreaterThan(0);
    }, PATIENT);
    const ended = controlPlane.stop('SIGTERM');
    // It no longer listens.
    await eventually(() => expect(fetch(`${controlPlane.url}/readyz`)).rejects.toThrow(), PATIENT);
    // Its metrics are served to the end: a long drain is no outage.
    expect((await fetch(`${controlPlane.metricsUrl}/metrics`)).status).toBe(200);
    await inTheWay.rollback().execute();
    expect(await listed).toMatchObject({ status: 200 });
    expect(await ended).toEqual({ code: 0, signal: null });
  });
});
