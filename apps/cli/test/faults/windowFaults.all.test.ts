import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@weighbridge/testing';
import { describe, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { createLoad, slowStream } from './load.ts';
import { differingBuckets } from './reconciliation.ts';

const SEED = 20_261_124;
/** How far the clocks of the proxies are ahead of the control plane's. */
const SKEWS_MS = [300_000, -300_000];
/** How long before the edge the apps are started: the usual start time, else much longer. */
const LEADS_MS = [25_000, 100_000];
/** How long before the edge the requests begin that end after it. */
const ACROSS_MS = 4_000;

const EDGES = [
  {
    what: 'a day of 23 hours',
    policy: { window: 'day', timezone: 'Europe/Berlin' },
    start: '2027-03-27T23:00:00.000Z',
    edge: '2027-03-28T22:00:00.000Z',
  },
  {
    what: 'a leap day',
    policy: { window: 'day', timezone: 'UTC' },
    start: '2028-02-29T00:00:00.000Z',
    edge: '2028-03-01T00:00:00.000Z',
  },
];

/** Starts everything some seconds before an instant of the control plane's clock. */
async function startBefore(edge: number): Promise<{ cluster: Cluster; msToEdge: () => number }> {
  for (const leadMs of LEADS_MS) {
    const aheadMs = edge - leadMs - Date.now();
    const msToEdge = () => edge - Date.now() - aheadMs;
    const cluster = await startCluster({
      proxies: SKEWS_MS.length,
      clockOffsetMs: (name) => aheadMs + (SKEWS_MS[Number(/^proxy-(\d)$/.exec(name)?.[1]) - 1] ?? 0),
    });
    if (msToEdge() > ACROSS_MS + 3_000) return { cluster, msToEdge };
    await cluster.close();
  }
  throw new Error('the cluster takes too long to start');
}

describe("12: a request counts in the window in which the control plane's clock admitted it", () => {
  it.concurrent.for(EDGES)(
    'at the end of $what, with proxies whose clocks are 5 minutes off',
    async (given, { expect, onTestFinished }) => {
      const [start, edge] = [Date.parse(given.start), Date.parse(given.edge)];
      const { cluster, msToEdge } = await startBefore(edge);
      onTestFinished(() => cluster.close());
      const name = `row-12-${given.start}`;
      const policy = await manage(cluster, 'POST', '/api/v1/policies', {
        body: { name, limit_micro_usd: 10_000_000, counter_scope: 'principal', ...given.policy },
      });
      expect(policy.status).toBe(201);
      const caller = await cluster.caller(name, { policy_id: policy.body.id });
      const load = (series: string, nextRequest?: () => ReturnType<typeof slowStream>) =>
        cluster.proxies.map((proxy, at) =>
          createLoad({
            caller,
            seed: SEED,
            series: `${series}${at}.`,
            proxies: [proxy],
            atOnce: 2,
            ...(nextRequest && { nextRequest }),
          }),
        );

      const before = load('before');
      await Promise.all(before.map((one) => one.send(5)));
      await sleep(msToEdge() - ACROSS_MS);
      const across = load('across', () => slowStream((2 * ACROSS_MS) / 100, 100));
      const crossing = Promise.all(across.map((one) => one.send(2)));
      const arrived = () =>
        cluster.vendor.requests.filter(({ headers }) =>
          String(headers['x-client-request-id']).startsWith(`${name}.across`),
        );
      await eventually(() =>
        expect({ arrived: arrived().length, ended: across.flatMap(({ sent }) => sent) }).toEqual({
          arrived: 2 * SKEWS_MS.length,
          ended: [],
        }),
      );
      expect(msToEdge()).toBeGreaterThan(0);
      await sleep(msToEdge() + 250);
      const after = load('after');
      await Promise.all(after.map((one) => one.send(5)));
      await crossing;
      for (const { sent } of [...before, ...across, ...after])
        expect(sent.map(({ end }) => end)).toEqual(Array(sent.length).fill('whole'));

      await cluster.settled();
      const rows = await cluster.db
        .selectFrom('usage_events')
        .select(['attribution', 'bucket_keys', 'cost_nano_usd'])
        .where('principal_id', '=', name)
        .execute();
      expect(rows).toHaveLength(SKEWS_MS.length * (5 + 2 + 5));
      const wrong = rows.flatMap(({ attribution, bucket_keys }) => {
        const { n } = (attribution as { labels: { n: string } }).labels;
        const expected = n.includes('.after') ? edge : start;
        const windows = bucket_keys.map((key) => Number(key.split('/')[2]));
        return windows.every((window) => window === expected) ? [] : [`${n} counts in ${windows}`];
      });
      expect(wrong).toEqual([]);
      expect(await differingBuckets(cluster)).toEqual([]);
      const { body: report } = await manage(cluster, 'GET', '/api/v1/usage', { key: caller.key });
      const spent = rows
        .filter(({ attribution }) => (attribution as { labels: { n: string } }).labels.n.includes('.after'))
        .reduce((sum, row) => sum + row.cost_nano_usd, 0n);
      expect(report).toMatchObject({
        window_start: given.edge,
        bucket_spent_micro_usd: Number((spent + 500n) / 1_000n),
      });
      process.stdout.write(`row 12: ${rows.length} rows, ${spent} nano-USD after the end of ${given.what}\n`);
    },
  );
});
