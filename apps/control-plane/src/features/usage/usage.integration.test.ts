import { newUuid, type WindowKind } from '@weighbridge/domain';
import {
  closeEpoch,
  markLost,
  recordUsage,
  recordWatermarks,
  registerProducer,
  retireProducer,
} from '@weighbridge/ledger';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { putInQuarantine } from '../../../test/quarantined.ts';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { type TestProxy, testProxy } from '../../../test/testProxy.ts';

/** Each field of the usage report, for usage that is encoded as by a proxy. The test sets the time. */

let api: TestApi;
let proxy: TestProxy;
beforeAll(async () => {
  api = await startTestApi();
  proxy = testProxy(api);
});
afterAll(() => api.close());

const DAY_MS = 86_400_000;
const SCOPES = ['key', 'principal', 'policy'] as const;

/** The edges of windows by the calendars of these time zones, computed by hand. */
const WINDOWS: readonly (readonly [
  window: WindowKind,
  timezone: string,
  now: string,
  start: string,
  end: string,
])[] = [
  ['hour', 'UTC', '2026-11-20T10:30:00Z', '2026-11-20T10:00:00Z', '2026-11-20T11:00:00Z'],
  // Offset by half an hour.
  ['hour', 'Asia/Kolkata', '2026-11-20T10:10:00Z', '2026-11-20T09:30:00Z', '2026-11-20T10:30:00Z'],
  // The repeated hour is two windows.
  ['hour', 'Europe/Berlin', '2026-10-25T00:30:00Z', '2026-10-25T00:00:00Z', '2026-10-25T01:00:00Z'],
  ['hour', 'Europe/Berlin', '2026-10-25T01:30:00Z', '2026-10-25T01:00:00Z', '2026-10-25T02:00:00Z'],
  // A day of 23 hours, and one of 25.
  ['day', 'Europe/Berlin', '2026-03-29T12:00:00Z', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
  ['day', 'America/New_York', '2026-11-01T12:00:00Z', '2026-11-01T04:00:00Z', '2026-11-02T05:00:00Z'],
  // A day that begins at one o'clock, since its midnight is skipped.
  ['day', 'America/Havana', '2026-03-08T12:00:00Z', '2026-03-08T05:00:00Z', '2026-03-09T04:00:00Z'],
  ['day', 'UTC', '2028-02-29T23:59:59.999Z', '2028-02-29T00:00:00Z', '2028-03-01T00:00:00Z'],
  // From Monday; the clocks change in one of these weeks.
  ['week', 'Europe/Berlin', '2026-10-24T12:00:00Z', '2026-10-18T22:00:00Z', '2026-10-25T23:00:00Z'],
  ['week', 'UTC', '2027-01-01T00:00:00Z', '2026-12-28T00:00:00Z', '2027-01-04T00:00:00Z'],
  ['month', 'UTC', '2028-02-10T00:00:00Z', '2028-02-01T00:00:00Z', '2028-03-01T00:00:00Z'],
  // The clocks change by half an hour.
  ['month', 'Australia/Lord_Howe', '2026-10-20T00:00:00Z', '2026-09-30T13:30:00Z', '2026-10-31T13:00:00Z'],
];

const at = (time: Date | string) => {
  api.now = new Date(time);
};
let made = 0;
const policy = async (fields: Json) =>
  (await api.call('POST', '/policies', { body: { name: `policy ${++made}`, ...fields } })).body as Json & {
    id: string;
  };
const change = async (id: string, fields: Json) =>
  expect((await api.call('PATCH', `/policies/${id}`, { body: fields })).status).toBe(200);
const report = async (id: string) => (await api.call('GET', `/keys/${id}/usage`)).body;

/** Two keys of one principal and one of another under one policy, each of which spends its own amount. */
async function people(policyId: string) {
  const [ada, bob] = [`ada-${++made}`, `bob-${made}`];
  const issue = async (principal_id: string) => await api.issue({ principal_id, policy_id: policyId });
  const [first, second, other] = await Promise.all([issue(ada), issue(ada), issue(bob)]);
  return { first, second, other };
}
type People = Awaited<ReturnType<typeof people>>;

/** The total after each key spends once, in micro-USD: of the first key, of its principal, and of all. */
const SPENT = { key: 1_000, principal: 1_020, policy: 1_320 } as const;
async function spendOnce({ first, second, other }: People): Promise<void> {
  await Promise.all([
    proxy.spend(first.key, 1_000_000n),
    proxy.spend(second.key, 20_000n),
    proxy.spend(other.key, 300_000n),
  ]);
}

/** A kind of window ends alike in each scope: its first case has all scopes, the others one in turn. */
const scopesOf = (at: number) =>
  WINDOWS.findIndex(([kind]) => kind === WINDOWS[at]?.[0]) === at
    ? SCOPES
    : SCOPES.filter((_, index) => index === at % SCOPES.length);

describe.each(WINDOWS.map((window, index) => [...window, index] as const))(
  'a window of a %s in %s at %s',
  (window, timezone, now, start, end, index) => {
    const edges = { start: new Date(start), end: new Date(end) };

    it.each(scopesOf(index))(
      'is reported to the millisecond, by %s, with that of its parent',
      async (scope) => {
        at(new Date(edges.start.getTime() - 40 * DAY_MS));
        const parent = await policy({ window: 'none', counter_scope: 'policy', limit_micro_usd: 1_000_000 });
        const child = await policy({
          window,
          timezone,
          counter_scope: scope,
          limit_micro_usd: 10_000,
          parent_policy_id: parent.id,
        });
        const keys = await people(child.id);
        const above = await people(parent.id);
        const began = api.now.toISOString();
        const adasAbove = await api.issue({
          principal_id: keys.first.principal_id,
          policy_id: parent.id,
        });

        // The last instant of the previous window, the first of this one, and now.
        at(new Date(edges.start.getTime() - 1));
        await spendOnce(keys);
        at(edges.start);
        await spendOnce(keys);
        at(now);
        await spendOnce(keys);

        const expected = {
          policy_id: child.id,
          source: 'key',
          active: true,
          counter_scope: scope,
          pooled: scope === 'policy',
          limit_micro_usd: 10_000,
          override: null,
          window_start: edges.start.toISOString(),
          reset: edges.end.toISOString(),
          window_unbounded: false,
          bucket_spent_micro_usd: 2 * SPENT[scope],
          bucket_as_of: expect.any(String),
          principal_spent_micro_usd: 2 * SPENT.principal,
          principal_spent_from: edges.start.toISOString(),
          principal_spent_complete: true,
          remaining_micro_usd: 10_000 - 2 * SPENT[scope],
          headroom_micro_usd: 10_000 - 2 * SPENT[scope],
          headroom_counter: {
            policy_id: child.id,
            is_parent: false,
            limit_id: null,
            limit_name: null,
            counter_scope: scope,
            limit_micro_usd: 10_000,
            spent_micro_usd: 2 * SPENT[scope],
            reset: edges.end.toISOString(),
          },
          limits: [],
          queried_at: expect.any(String),
        };
        expect(await report(keys.first.id)).toEqual(expected);
        expect((await api.call('GET', '/usage', { key: keys.first.key })).body).toMatchObject({
          ...expected,
          bucket_as_of: expect.any(String),
          queried_at: expect.any(String),
        });
        expect(await report(keys.other.id)).toMatchObject({ principal_spent_micro_usd: 600 });
        // All of it counts in the parent too, whose window never ends; the parent's own keys spent nothing.
        expect(await report(above.first.id)).toMatchObject({
          bucket_spent_micro_usd: 3 * SPENT.policy,
          principal_spent_micro_usd: 0,
          window_start: began,
          principal_spent_from: began,
          reset: null,
          window_unbounded: true,
        });

        expect(await report(adasAbove.id)).toMatchObject({ principal_spent_micro_usd: 3 * SPENT.principal });

        // The window lasts until its last instant; then the next one begins.
        at(new Date(edges.end.getTime() - 1));
        expect(await report(keys.first.id)).toMatchObject({ ...expected, bucket_as_of: expect.any(String) });
        at(edges.end);
        expect(await report(keys.first.id)).toMatchObject({
          window_start: edges.end.toISOString(),
          principal_spent_from: edges.end.toISOString(),
          bucket_spent_micro_usd: 0,
          principal_spent_micro_usd: 0,
          remaining_micro_usd: 10_000,
        });
      },
    );
  },
);

it.each(SCOPES)(
  'a window that never ends has all spend since its policy was created, by %s',
  async (scope) => {
    at('2026-03-01T00:00:00Z');
    const { id } = await policy({ window: 'none', counter_scope: scope });
    const keys = await people(id);
    for (const time of ['2026-03-01T00:00:00Z', '2027-02-28T23:59:59.999Z', '2028-02-29T12:00:00Z']) {
      at(time);
      await spendOnce(keys);
    }
    expect(await report(keys.first.id)).toMatchObject({
      window_start: '2026-03-01T00:00:00.000Z',
      principal_spent_from: '2026-03-01T00:00:00.000Z',
      reset: null,
      window_unbounded: true,
      limit_micro_usd: null,
      remaining_micro_usd: null,
      bucket_spent_micro_usd: 3 * SPENT[scope],
      principal_spent_micro_usd: 3 * SPENT.principal,
    });
  },
);

describe('a changed policy', () => {
  const NOW = '2026-11-18T12:00:00Z';
  const THE_DAY_BEFORE = '2026-11-17T12:00:00Z';

  it.each(SCOPES)('keeps its spend, by %s, under another limit', async (scope) => {
    at(NOW);
    const { id } = await policy({ window: 'day', counter_scope: scope, limit_micro_usd: 10_000 });
    const keys = await people(id);
    await spendOnce(keys);
    await change(id, { limit_micro_usd: 900 });
    const spent = { bucket_spent_micro_usd: SPENT[scope], principal_spent_micro_usd: SPENT.principal };
    expect(await report(keys.first.id)).toMatchObject({
      ...spent,
      limit_micro_usd: 900,
      remaining_micro_usd: 0,
    });
    await change(id, { limit_micro_usd: null, enforcement: 'shadow' });
    expect(await report(keys.first.id)).toMatchObject({
      ...spent,
      limit_micro_usd: null,
      remaining_micro_usd: null,
      active: false,
    });
  });

  it.each(SCOPES.flatMap((from) => SCOPES.filter((to) => to !== from).map((to) => [from, to] as const)))(
    'counts by %s what it counted by %s, including requests in flight at the change',
    async (to, from) => {
      at(THE_DAY_BEFORE);
      const { id } = await policy({ window: 'day', counter_scope: from });
      const keys = await people(id);
      await spendOnce(keys);
      at(NOW);
      await spendOnce(keys);
      const inFlight = await proxy.admit(keys.first.key);
      await change(id, { counter_scope: to });
      expect(await report(keys.first.id)).toMatchObject({
        counter_scope: to,
        bucket_spent_micro_usd: SPENT[to],
        principal_spent_micro_usd: SPENT.principal,
        window_start: '2026-11-18T00:00:00.000Z',
        principal_spent_from: '2026-11-18T00:00:00.000Z',
      });
      await proxy.settle(inFlight, 5_000n);
      await proxy.spend(keys.first.key, 2_000n);
      expect(await report(keys.first.id)).toMatchObject({
        bucket_spent_micro_usd: SPENT[to] + 7,
        principal_spent_micro_usd: SPENT.principal + 7,
      });
    },
  );

  it.each([
    ['month', 'UTC', 2, '2026-11-01T00:00:00.000Z', '2026-12-01T00:00:00.000Z'],
    ['hour', 'UTC', 1, '2026-11-18T12:00:00.000Z', '2026-11-18T13:00:00.000Z'],
    ['day', 'Pacific/Kiritimati', 1, '2026-11-18T10:00:00.000Z', '2026-11-19T10:00:00.000Z'],
    ['week', 'UTC', 2, '2026-11-16T00:00:00.000Z', '2026-11-23T00:00:00.000Z'],
    ['none', 'UTC', 2, '2026-11-17T12:00:00.000Z', null],
  ] as const)(
    'counts by the %s in %s what the ledger has of that window',
    async (window, timezone, times, start, reset) => {
      at(THE_DAY_BEFORE);
      const { id } = await policy({ window: 'day', counter_scope: 'principal' });
      const keys = await people(id);
      await spendOnce(keys);
      at(NOW);
      await spendOnce(keys);
      const inFlight = await proxy.admit(keys.second.key);
      await change(id, { window, timezone });
      await proxy.settle(inFlight, 3_000n);
      expect(await report(keys.first.id)).toMatchObject({
        window_start: start,
        principal_spent_from: start,
        reset,
        window_unbounded: reset === null,
        bucket_spent_micro_usd: times * SPENT.principal + 3,
        principal_spent_micro_usd: times * SPENT.principal + 3,
      });
    },
  );
});

describe('the completeness of the report', () => {
  const NOW = '2026-11-18T12:00:00Z';
  let keys: People;
  beforeAll(async () => {
    at(NOW);
    keys = await people((await policy({ window: 'day', counter_scope: 'key' })).id);
  });
  beforeEach(async () => {
    await api.db.deleteFrom('producer_shards').execute();
    await api.db.deleteFrom('producers').execute();
    await api.db.deleteFrom('quarantined_usage').execute();
    await api.db.updateTable('ledger_floor').set({ dropped_before: null }).execute();
  });
  const isComplete = async (id = keys.first.id) => (await report(id)).principal_spent_complete;
  const minutesAgo = (minutes: number) => new Date(api.now.getTime() - minutes * 60_000);
  const startRun = async () => {
    const run = { producerId: newUuid(), epoch: newUuid() };
    await registerProducer(api.db, { ...run, name: 'pod', now: api.now });
    return run;
  };
  const NOTHING = [0n, 0n, 0n, 0n];

  it('is as of the lowest watermark of the open proxies', async () => {
    const asOf = async () => (await report(keys.first.id)).bucket_as_of;
    // Without proxies, it is as of the query itself.
    const alone = await report(keys.first.id);
    expect(alone.bucket_as_of).toBe(alone.queried_at);
    const runs = [await startRun(), await startRun()] as const;
    const mark = (run: (typeof runs)[number], minutes: number) =>
      recordWatermarks(api.db, [{ ...run, markAt: minutesAgo(minutes), seenAt: api.now }]);
    await api.db
      .updateTable('producers')
      .set({ mark_at: minutesAgo(90) })
      .execute();
    await mark(runs[0], 5);
    await mark(runs[1], 7);
    expect(await asOf()).toBe(minutesAgo(7).toISOString());
    // A watermark never goes back.
    await mark(runs[1], 8);
    expect(await asOf()).toBe(minutesAgo(7).toISOString());
    await closeEpoch(api.db, { ...runs[1], lastN: NOTHING, now: api.now });
    expect(await asOf()).toBe(minutesAgo(5).toISOString());
    await closeEpoch(api.db, { ...runs[0], lastN: NOTHING, now: api.now });
    const closed = await report(keys.first.id);
    expect(closed.bucket_as_of).toBe(closed.queried_at);
  });

  it('is not complete while a proxy is lost, until its loss is accepted', async () => {
    const run = await startRun();
    expect(await isComplete()).toBe(true);
    await markLost(api.db, { silentSince: new Date(api.now.getTime() + 1), now: api.now });
    expect(await isComplete()).toBe(false);
    await retireProducer(api.db, { epoch: run.epoch, retiredBy: 'operator', now: api.now });
    expect(await isComplete()).toBe(true);
  });

  it('is complete for a window that began after a proxy was lost', async () => {
    await startRun();
    const lostAt = minutesAgo(24 * 60);
    await markLost(api.db, { silentSince: new Date(api.now.getTime() + 1), now: lostAt });
    expect(await isComplete()).toBe(true);
  });

  it('is not complete while numbered events are missing for a minute', async () => {
    const run = await startRun();
    const receive = (firstN: bigint) =>
      recordUsage(api.db, { events: [], refused: [], received: [{ ...run, shard: 0, firstN, count: 1 }] });
    await receive(2n);
    // Batches may arrive out of order.
    expect(await isComplete()).toBe(true);
    const longAgo = new Date(Date.now() - 61_000);
    await api.db.updateTable('producer_shards').set({ gap_since: longAgo }).execute();
    expect(await isComplete()).toBe(false);
    await receive(1n);
    expect(await isComplete()).toBe(true);
  });

  it('is not complete while usage of the principal, or of an unknown principal, is in quarantine', async () => {
    const principalId = keys.first.principal_id as string;
    const id = await putInQuarantine(api.db, { principalId });
    expect([await isComplete(), await isComplete(keys.other.id)]).toEqual([false, true]);
    const unknown = await putInQuarantine(api.db);
    expect(await isComplete(keys.other.id)).toBe(false);
    for (const one of [id, unknown]) {
      await api.call('POST', `/quarantine/${one}/discard`, { body: { note: 'a test' } });
    }
    expect([await isComplete(), await isComplete(keys.other.id)]).toEqual([true, true]);
  });

  it('begins with the window, or later if rows were deleted before the counter was created', async () => {
    const from = async (id: string) => (await report(id)).principal_spent_from;
    const floor = minutesAgo(60);
    await api.db.updateTable('ledger_floor').set({ dropped_before: floor }).execute();
    expect(await from(keys.first.id)).toBe(floor.toISOString());
    // A counter that was created before the rows were deleted includes them.
    at(minutesAgo(120));
    const older = await people((await policy({ window: 'day' })).id);
    at(NOW);
    expect(await from(older.first.id)).toBe('2026-11-18T00:00:00.000Z');
  });

  it.each([{ window: 'none' }, { window: 'none', counter_scope: 'policy' }] as const)(
    'begins later if a counter without a window was restarted after rows were deleted: $window $counter_scope',
    async (changes) => {
      at(minutesAgo(120));
      const { id } = await policy({ window: 'hour', counter_scope: 'key' });
      const old = await people(id);
      at(NOW);
      const floor = minutesAgo(60);
      await api.db.updateTable('ledger_floor').set({ dropped_before: floor }).execute();
      await change(id, changes);
      const begins = { window_start: floor.toISOString(), principal_spent_from: floor.toISOString() };
      expect(await report(old.first.id)).toMatchObject(begins);
      // Rows that are deleted later are already counted.
      await api.db
        .updateTable('ledger_floor')
        .set({ dropped_before: minutesAgo(30) })
        .execute();
      expect(await report(old.first.id)).toMatchObject(begins);
    },
  );
});
