import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from './cluster.ts';
import { DEATHS, expectSurvivesDeaths } from './deaths.ts';
import { createLoad, type LoadRequest, slowStream } from './load.ts';
import { expectReconciled } from './reconciliation.ts';

const SEED = 20_261_120;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

describe('a proxy whose process or disk fails', () => {
  it('1: killed at any point, has recorded each attempt once, and charges attempts in flight after a restart', () =>
    expectSurvivesDeaths(cluster, DEATHS));

  it.each(['ENOSPC', 'EIO'] as const)(
    '19: with %s on its spool, it asks no vendor for anything',
    async (code) => {
      const [proxy] = cluster.proxies;
      if (!proxy) throw new Error('there is no proxy');
      const caller = await cluster.caller(`row-19-${code}`);
      const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
      await load.send(20);
      expect(load.sent.filter(({ end }) => end === 'whole')).toHaveLength(20);

      const before = cluster.vendor.requests.length;
      await proxy.inject({ spoolWrite: code });
      await load.send(20);
      expect(await proxy.fired()).toContain(`${code} INTENT`);
      expect(cluster.vendor.requests).toHaveLength(before);
      expect(load.sent.slice(20).map(({ status, code }) => [status, code])).toEqual(
        Array(20).fill([503, 'usage_backlog']),
      );
      await proxy.inject({});
      await eventually(
        async () => {
          await load.send(1);
          expect(load.sent.at(-1)?.end).toBe('whole');
        },
        { intervalMs: 250 },
      );
      const served = load.sent.filter(({ end }) => end === 'whole').length;

      // The disk fails during responses: their cost can't be written any more, so their reservation is charged.
      const streams = createLoad({
        caller,
        seed: SEED,
        series: 's',
        proxies: [proxy],
        nextRequest: () => slowStream(40, 10),
      });
      const streaming = streams.send(4);
      await eventually(() => expect(cluster.vendor.requests).toHaveLength(before + served - 20 + 4));
      await proxy.inject({ spoolWrite: code });
      await streaming;
      expect(
        (await proxy.fired()).filter((fault) => fault === `${code} SETTLE`).length,
      ).toBeGreaterThanOrEqual(4);
      await proxy.inject({});
      await proxy.stop('SIGKILL');
      await proxy.start();
      const figures = await expectReconciled(
        cluster,
        caller,
        [...load.sent, ...streams.sent],
        `row 19, ${code}`,
        {
          mayBeEstimated: (sent) => streams.sent.includes(sent),
        },
      );
      expect(figures).toMatchObject({ exactRows: served, estimatedRows: 4 });
    },
  );

  it('22: charges a client that disconnects what the vendor bills, or an amount marked as estimated', async () => {
    const caller = await cluster.caller('row-22');
    const leaving = createLoad({
      caller,
      seed: SEED,
      proxies: cluster.proxies,
      nextRequest(random): LoadRequest {
        const disconnectsAfter = random.pick([-1, 1, random.integer(3_000), 1_000_000]);
        // Half of them end before the drain limit, half do not.
        const stream = slowStream(30, random.pick([2, 60]));
        return { ...stream, disconnectsAfter };
      },
    });
    await leaving.send(80);
    const left = leaving.sent.filter(({ end }) => end === 'left');
    const phases = [-1, 1].map(
      (after) => left.filter(({ request }) => request.disconnectsAfter === after).length,
    );
    for (const many of [...phases, left.length - 30, 80 - left.length]) expect(many).toBeGreaterThan(5);
    const figures = await expectReconciled(cluster, caller, leaving.sent, 'row 22');
    expect(figures.estimatedRows).toBeGreaterThan(10);
    expect(figures.exactRows).toBeGreaterThan(80 - left.length);
  });
});
