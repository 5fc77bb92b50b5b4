import { newUuid } from '@weighbridge/domain';
import { closeEpoch, markLost, recordUsage, recordWatermarks, registerProducer } from '@weighbridge/ledger';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { findServingProxies, recordSeen, sumProxies } from './proxies.repository.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  await api.db.deleteFrom('producer_shards').execute();
  await api.db.deleteFrom('producers').execute();
  await api.db.deleteFrom('proxies').execute();
});

type Listed = Json & { id: string; usage: Json & { shards: Json[] } };

const MINUTE_MS = 60_000;
const ago = (minutes: number) => new Date(api.now.getTime() - minutes * MINUTE_MS);

/** A run of a proxy that was last seen some minutes ago. */
async function startRun(seenMinutesAgo = 0, producerId = newUuid()) {
  const run = { producerId, epoch: newUuid() };
  await registerProducer(api.db, { ...run, name: 'pod-1', now: ago(seenMinutesAgo) });
  await api.db
    .updateTable('producers')
    .set({ last_seen_at: ago(seenMinutesAgo) })
    .where('epoch', '=', run.epoch)
    .execute();
  return run;
}
const received = async (
  run: { producerId: string; epoch: string },
  ...ranges: [shard: number, firstN: bigint, count: number][]
) => {
  const all = ranges.map(([shard, firstN, count]) => ({ ...run, shard, firstN, count }));
  await recordUsage(api.db, { events: [], refused: [], received: all });
};
const lose = () => markLost(api.db, { silentSince: ago(25), now: api.now });
const list = async (query = '') => (await api.call('GET', `/proxies${query}`)).body.data as Listed[];
const retire = (id: string) => api.call('POST', `/proxies/${id}/retire`);

const watching = (id: string) => ({
  id,
  name: 'pod-1',
  version: '1.2.3',
  takesRows: true,
  appliedRevision: 0n,
  inFlightRequests: 2,
  waitingUsageBytes: 9n,
  usageLimitBytes: 100n,
  connectors: [],
  connectedAt: api.now,
  maxStalenessMs: 60_000,
});

describe('the list of proxies', () => {
  it('shows the usage of each that is recorded and missing, and its watermark', async () => {
    const run = await startRun();
    await recordSeen(api.db, [watching(run.epoch)]);
    await recordWatermarks(api.db, [{ ...run, markAt: api.now, seenAt: api.now }]);
    await received(run, [0, 1n, 3], [2, 1n, 2], [2, 5n, 1], [2, 8n, 2]);
    const [proxy] = await list();
    expect(proxy).toMatchObject({
      id: run.epoch,
      name: 'pod-1',
      version: '1.2.3',
      in_flight_requests: 2,
      producer_id: run.producerId,
      usage: { state: 'open', mark_at: api.now.toISOString(), superseded_by: null, advice: null },
    });
    expect(proxy?.usage.shards).toEqual([
      { shard: 0, recorded_n: 3, last_n: null, missing: 0, missing_ranges: [], gap_since: null },
      {
        shard: 2,
        recorded_n: 2,
        last_n: null,
        missing: 4,
        missing_ranges: ['3-4', '6-7'],
        gap_since: expect.any(String),
      },
    ]);
    // Events missing at the end are known only once the run reports its last number.
    await closeEpoch(api.db, { ...run, lastN: [5n, 0n, 10n, 0n], now: api.now });
    const [ended] = await list();
    expect(ended?.usage.shards).toMatchObject([
      { shard: 0, last_n: 5, missing: 2, missing_ranges: ['4-5'] },
      { shard: 1, last_n: 0, missing: 0 },
      { shard: 2, last_n: 10, missing: 5, missing_ranges: ['3-4', '6-7', '10-10'] },
      { shard: 3, last_n: 0, missing: 0 },
    ]);
  });

  it('bounds the missing ranges that it shows', async () => {
    const run = await startRun();
    const each = Array.from(
      { length: 30 },
      (_, at) => [1, BigInt(2 * at + 2), 1] as [number, bigint, number],
    );
    await received(run, ...each);
    const [proxy] = await list();
    const shard = proxy?.usage.shards[0];
    expect(shard?.missing).toBe(30);
    expect(shard?.missing_ranges).toHaveLength(20);
  });

  it('shows proxies that may serve or whose usage may be incomplete; all of them on request', async () => {
    const old = await startRun(60);
    const closed = await startRun(60);
    await closeEpoch(api.db, { ...closed, lastN: [0n, 0n, 0n, 0n], now: ago(59) });
    await lose();
    const silent = await startRun(5);
    await recordSeen(api.db, [watching('an-earlier-release')]);
    expect((await list()).map(({ id }) => id).sort()).toEqual(
      [old.epoch, silent.epoch, 'an-earlier-release'].sort(),
    );
    expect((await list('?all=true')).map(({ id }) => id)).toContain(closed.epoch);
    expect((await list('?all=true')).find(({ id }) => id === 'an-earlier-release')).toMatchObject({
      producer_id: null,
      usage: null,
    });
    // The pages hold the same proxies in the same order.
    const paged: unknown[] = [];
    for (let token = ''; ; ) {
      const { body } = await api.call('GET', `/proxies?all=true&page_size=1&page_token=${token}`);
      paged.push(...(body.data as Json[]).map(({ id }) => id));
      token = body.next_page_token as string;
      if (token === '') break;
    }
    expect(paged).toEqual((await list('?all=true')).map(({ id }) => id));
  });

  it('shows since when a proxy is silent, and advice: replay its spool, or retire it once it is lost', async () => {
    const silent = await startRun(5);
    const lost = await startRun(60);
    await lose();
    const found = await list();
    const of = (epoch: string) => found.find(({ id }) => id === epoch);
    expect(of(silent.epoch)).toMatchObject({
      last_seen_at: ago(5).toISOString(),
      usage: { state: 'open', advice: expect.stringMatching(/spool replay.*25 minutes/) },
    });
    expect(of(lost.epoch)).toMatchObject({
      last_seen_at: ago(60).toISOString(),
      usage: {
        state: 'lost',
        ended_at: api.now.toISOString(),
        advice: expect.stringMatching(new RegExp(`spool replay.*/proxies/${lost.epoch}/retire`)),
      },
    });
    const successor = await startRun(0, silent.producerId);
    expect((await list()).find(({ id }) => id === silent.epoch)).toMatchObject({
      usage: { superseded_by: successor.epoch, advice: expect.stringContaining(successor.epoch) },
    });
  });

  it('counts a killed proxy no longer once another process has its spool', async () => {
    const killed = await startRun();
    await recordSeen(api.db, [watching(killed.epoch)]);
    expect(await sumProxies(api.db)).toMatchObject({ serving: 1, waitingBytes: 9 });
    const successor = await startRun(0, killed.producerId);
    await recordSeen(api.db, [watching(successor.epoch)]);
    expect(await sumProxies(api.db)).toMatchObject({ serving: 1, waitingBytes: 9 });
    expect(await findServingProxies(api.db)).toEqual([{ id: successor.epoch, appliedRevision: 0n }]);
  });
});

describe('retiring a proxy', () => {
  it('accepts the loss of a lost proxy, once, and audits who did it and what was missing', async () => {
    const run = await startRun(60);
    await received(run, [1, 3n, 1]);
    await api.db
      .updateTable('producers')
      .set({ last_seen_at: ago(60) })
      .execute();
    await lose();
    const { status, body } = await retire(run.epoch);
    expect([status, body]).toMatchObject([
      200,
      { id: run.epoch, usage: { state: 'retired', retired_by: 'operator', advice: null } },
    ]);
    expect(await outcome(retire(run.epoch))).toEqual([409, 'proxy_not_lost']);
    const { data } = (await api.call('GET', `/audit?resource_id=${run.epoch}`)).body as { data: Json[] };
    expect(data).toMatchObject([
      {
        action: 'proxy.retired',
        actor_principal_id: 'operator',
        detail: { producer_id: run.producerId, name: 'pod-1', shards: [{ shard: 1, missing: 2 }] },
      },
    ]);
  });

  it.each(['open', 'closed', 'without usage'] as const)(
    'refuses a proxy that is %s, with the reason',
    async (state) => {
      const run = await startRun(1);
      if (state === 'closed') await closeEpoch(api.db, { ...run, lastN: [0n, 0n, 0n, 0n], now: api.now });
      await recordSeen(api.db, [watching('an-earlier-release')]);
      const answer = await retire(state === 'without usage' ? 'an-earlier-release' : run.epoch);
      expect([answer.status, answer.body.error]).toMatchObject([
        409,
        {
          code: 'proxy_not_lost',
          state: state === 'without usage' ? null : state,
          message: expect.stringMatching(
            { open: /counts as lost after/, closed: /no loss to accept/, 'without usage': /no usage of it/ }[
              state
            ],
          ),
        },
      ]);
      const audited = await api.db.selectFrom('audit_log').where('action', '=', 'proxy.retired').selectAll();
      expect((await audited.execute()).filter(({ resource_id }) => resource_id === run.epoch)).toEqual([]);
    },
  );

  it('does not find an unknown proxy', async () => {
    for (const id of [newUuid(), 'x', '%00']) {
      expect(await outcome(retire(id))).toEqual([404, 'proxy_not_found']);
    }
  });
});
