import { newUuid } from '@weighbridge/domain';
import { answerLeaseCalls, markLost, registerProducer } from '@weighbridge/ledger';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { type TestProxy, testProxy } from '../../../test/testProxy.ts';
import { recordAttempts } from '../../../test/usage.ts';

/** What a key can still spend: the smallest remainder over all counters that can refuse its requests. */

let api: TestApi;
let proxy: TestProxy;
beforeAll(async () => {
  api = await startTestApi();
  proxy = testProxy(api);
});
afterAll(() => api.close());

let made = 0;
const policy = async (fields: Json) =>
  String((await api.call('POST', '/policies', { body: { name: `policy ${++made}`, ...fields } })).body.id);
const issue = (policy_id: string, principal_id: string) =>
  api.issue({ policy_id, principal_id, scopes: ['usage:read'] });
const report = async (id: string, key?: string) =>
  (await api.call('GET', `/keys/${id}/usage`, key === undefined ? {} : { key })).body;

/** A key under three policies, of which a sibling of another principal shares all but the first. */
async function chain(
  limits: readonly [number | null, number | null, number | null],
  fields: readonly Json[] = [],
) {
  const company = await policy({
    window: 'none',
    counter_scope: 'policy',
    limit_micro_usd: limits[2],
    ...fields[2],
  });
  const team = await policy({
    counter_scope: 'policy',
    limit_micro_usd: limits[1],
    parent_policy_id: company,
    ...fields[1],
  });
  const own = await policy({
    counter_scope: 'key',
    limit_micro_usd: limits[0],
    parent_policy_id: team,
    ...fields[0],
  });
  const [mine, theirs] = [await issue(own, `ada-${made}`), await issue(own, `bob-${made}`)];
  await proxy.spend(mine.key, 100_000n);
  await proxy.spend(theirs.key, 300_000n);
  return { company, team, own, mine, theirs };
}

it('is that of the governing policy while it is the smallest', async () => {
  const { own, mine } = await chain([1_000, 5_000, 9_000]);
  const headroom = {
    remaining_micro_usd: 900,
    headroom_micro_usd: 900,
    headroom_counter: {
      policy_id: own,
      is_parent: false,
      counter_scope: 'key',
      limit_micro_usd: 1_000,
      spent_micro_usd: 100,
      reset: '2026-12-01T00:00:00.000Z',
    },
  };
  expect(await report(mine.id)).toMatchObject(headroom);
  expect(await report(mine.id, mine.key)).toMatchObject(headroom);
  expect((await api.call('GET', '/usage', { key: mine.key })).body).toMatchObject(headroom);
});

it.each([
  ['team', [1_000, 500, 9_000], 100, '2026-12-01T00:00:00.000Z'],
  ['company', [1_000, 5_000, 401], 1, null],
  ['company', [null, null, 300], 0, null],
] as const)(
  'is that of the %s if that is smaller, whose figures only an operator sees',
  async (level, limits, left, reset) => {
    const made = await chain(limits);
    const remaining_micro_usd = limits[0] === null ? null : limits[0] - 100;
    const place = { is_parent: true, counter_scope: 'policy', reset };
    const shown = {
      policy_id: made[level],
      limit_micro_usd: limits[level === 'team' ? 1 : 2],
      spent_micro_usd: 400,
    };
    const hidden = { policy_id: null, limit_micro_usd: null, spent_micro_usd: null };
    expect(await report(made.mine.id)).toMatchObject({
      remaining_micro_usd,
      headroom_micro_usd: left,
      headroom_counter: { ...place, ...shown },
    });
    const own = await report(made.mine.id, made.mine.key);
    expect(own).toMatchObject({
      remaining_micro_usd,
      headroom_micro_usd: left,
      headroom_counter: { ...place, ...hidden },
    });
    expect(JSON.stringify(own)).not.toContain(made[level]);
  },
);

it('is unlimited without a counter that can refuse a request', async () => {
  const unlimited = { headroom_micro_usd: null, headroom_counter: null };
  expect(await report((await chain([null, null, null])).mine.id)).toMatchObject(unlimited);
  const counting = await chain(
    [200, 300, 400],
    [{ enforcement: 'shadow' }, { enforcement: 'off' }, { enforcement: 'shadow' }],
  );
  expect(await report(counting.mine.id)).toMatchObject({
    remaining_micro_usd: 100,
    active: false,
    ...unlimited,
  });
  // An enforced parent refuses, although the governing policy only counts.
  const above = await chain([200, 300, 410], [{ enforcement: 'shadow' }, { enforcement: 'off' }]);
  expect(await report(above.mine.id)).toMatchObject({
    remaining_micro_usd: 100,
    headroom_micro_usd: 10,
    headroom_counter: { policy_id: above.company },
  });
});

it('names the nearest of equals, and never exceeds what remains of an active policy', async () => {
  const { own, mine } = await chain([500, 800, 800]);
  expect(await report(mine.id)).toMatchObject({
    remaining_micro_usd: 400,
    headroom_micro_usd: 400,
    headroom_counter: { policy_id: own },
  });
});

it('counts what a lost proxy may have spent of a parent, as the report of that policy does', async () => {
  const { company, mine } = await chain([null, null, 10_000]);
  const { bucket } = (await api.resolve(mine.key)).policies[2] ?? {};
  if (!bucket) throw new Error('the company has a counter');
  const run = { producerId: newUuid(), epoch: newUuid() };
  await registerProducer(api.db, { ...run, name: 'pod', now: api.now });
  const call = {
    bucket,
    seq: 1n,
    returnedNanoUsd: 0n,
    wantNanoUsd: 2_000_000n,
    minimumNanoUsd: 1n,
  };
  await answerLeaseCalls(api.db, { ...run, calls: [call], now: api.now });
  // A proxy that is connected may still return its lease.
  expect(await report(mine.id)).toMatchObject({ headroom_micro_usd: 9_600 });
  await markLost(api.db, { silentSince: new Date(api.now.getTime() + 1), now: api.now });
  expect(await report(mine.id)).toMatchObject({ headroom_micro_usd: 7_600 });
  const above = await issue(company, 'boss');
  expect(await report(above.id)).toMatchObject({ remaining_micro_usd: 7_600, headroom_micro_usd: 7_600 });
});

const MONTH_MS = BigInt(Date.parse('2026-11-01T00:00:00Z'));

/** Spends of a further limit's counter. */
async function spendOf(policyId: string, limitId: string, subject: string, costNano: bigint) {
  const bucket = { policyId: `${policyId}.${limitId}`, counterVersion: 1, subject, windowStartMs: MONTH_MS };
  await recordAttempts(api.db, [{ costNano, buckets: [bucket] }]);
}

it('names the further limits that bind a key whatever it asks, and counts those that count every request', async () => {
  const parent = await policy({
    counter_scope: 'policy',
    limits: [{ name: 'company models', models: ['other/*'], counter_scope: 'policy', limit_micro_usd: 70 }],
  });
  const id = await policy({
    counter_scope: 'policy',
    limit_micro_usd: 5_000,
    parent_policy_id: parent,
    limits: [
      { name: 'each person', limit_micro_usd: 900 },
      { name: 'mock', models: ['mock/*'], counter_scope: 'policy', limit_micro_usd: 300 },
      { name: 'of the team', counter_scope: 'team', limit_micro_usd: 800 },
      { name: 'in production', when: { env: 'prod' }, limit_micro_usd: 10 },
      { name: 'each customer', counter_scope: 'user', limit_micro_usd: 1 },
      { name: 'watched', counter_scope: 'policy', limit_micro_usd: 1, enforcement: 'shadow' },
      { name: 'gone', counter_scope: 'policy', limit_micro_usd: 1, enforcement: 'off' },
    ],
  });
  const { body } = await api.call('GET', `/policies/${id}`);
  const idOf = (name: string) => String((body.limits as Json[]).find((one) => one.name === name)?.id);
  const principal_id = `ada-${made}`;
  const scopes = ['usage:read', 'models:read'];
  const attribution = { team: 'search' };
  const mine = await api.issue({ policy_id: id, principal_id, scopes, attribution });
  const plain = await api.issue({ policy_id: id, principal_id, scopes });
  await spendOf(id, idOf('each person'), `principal:${principal_id}`, 150_000n);
  await spendOf(id, idOf('mock'), 'policy', 260_000n);
  await spendOf(id, idOf('of the team'), 'team:search', 100_000n);
  const named = ({ limits }: Json) =>
    (limits as Json[]).map((one) => [one.limit_name, one.spent_micro_usd, one.limit_micro_usd]);
  const own = [
    ['each person', 150, 900],
    ['mock', 260, 300],
    ['watched', 0, 1],
  ];
  // Any key of the policy may name the team, so its figures are no caller's own.
  const all = [...own.slice(0, 2), ['of the team', 100, 800], ...own.slice(2)];
  const seen = await report(mine.id, mine.key);
  expect(named(seen)).toEqual(own);
  const whole = await report(mine.id);
  expect(named(whole)).toEqual([...all, ['company models', 0, 70]]);
  expect(named(await report(plain.id, plain.key))).toEqual(own);
  expect((whole.limits as Json[])[2]).toMatchObject({
    ...{ policy_id: id, is_parent: false, counter: 'team', value: 'search', counter_scope: 'team' },
    ...{ headroom_micro_usd: 700, override: null, reset: '2026-12-01T00:00:00.000Z' },
  });
  const counter = { policy_id: id, limit_id: idOf('of the team'), limit_name: 'of the team' };
  expect(whole).toMatchObject({ headroom_micro_usd: 700, headroom_counter: counter });
  expect(seen).toMatchObject({
    headroom_micro_usd: 700,
    headroom_counter: { policy_id: null, limit_id: null, limit_name: null, spent_micro_usd: null },
  });
  await api.call('POST', '/overrides', {
    body: {
      ...{ policy_id: id, limit_id: idOf('of the team'), value: 'search' },
      ...{ limit_micro_usd: 0, reason: 'frozen', duration_seconds: 600 },
    },
  });
  expect(await report(mine.id, mine.key)).toMatchObject({ headroom_micro_usd: 0 });
  expect(await report(plain.id, plain.key)).toMatchObject({ headroom_micro_usd: 750 });
  const { body: models } = await api.call('GET', '/models', { key: plain.key });
  const left = (models.data as Json[]).map((one) => [one.provider, one.headroom_micro_usd]);
  expect(left.filter(([provider]) => provider === 'mock')).toContainEqual(['mock', 40]);
  expect(
    left.every(([provider, headroom]) => (provider === 'mock' ? headroom === 40 : headroom === null)),
  ).toBe(true);
});
