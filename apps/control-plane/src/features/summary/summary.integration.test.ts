import { newId, newUuid } from '@weighbridge/domain';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts, type Used } from '../../../test/usage.ts';
import { recordSeen, type SeenProxy } from '../proxies/proxies.repository.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor' });
});
afterAll(() => api.close());
beforeEach(async () => {
  await emptyLedger(api.db);
  await api.db.deleteFrom('proxies').execute();
});

const summary = async (key?: string) =>
  (await api.call('GET', '/summary', key === undefined ? {} : { key })).body as Json & {
    today: Json;
    month: Json;
    days: Json[];
    budgets: Json[];
    recent: Json;
    attention: { kind: string; message: string; resource_ids: string[] }[];
  };
const kinds = async (key?: string) => (await summary(key)).attention.map(({ kind }) => kind);

/** A proxy that may serve. */
async function serving(changes: Partial<SeenProxy> = {}): Promise<string> {
  const id = newUuid();
  const load = { inFlightRequests: 0, waitingUsageBytes: 0n, usageLimitBytes: 100n, connectors: [] };
  const about = { name: 'pod-1', version: '1', takesRows: true, appliedRevision: 0n, connectedAt: api.now };
  await recordSeen(api.db, [{ id, ...about, ...load, maxStalenessMs: 600_000, ...changes }]);
  return id;
}

async function team(name: string, members: Record<string, 'lead' | 'member'>, policy_id?: string) {
  const body = { name, ...(policy_id && { policy_id }) };
  const { id } = (await api.call('POST', '/teams', { body })).body;
  for (const [member, role] of Object.entries(members))
    await api.call('PUT', `/teams/${id}/members/${member}`, { body: { role } });
  return String(id);
}

it('adds up today and this month for each according to its reach', async () => {
  const policy = (await api.call('POST', '/policies', { body: { name: 'crew', limit_micro_usd: 10 } })).body;
  const teamId = await team('crew', { lea: 'lead', max: 'member' }, String(policy.id));
  const policies = [String(policy.id)];
  const yesterday = new Date('2026-11-19T09:00:00Z');
  const lastMonth = new Date('2026-10-31T23:59:59Z');
  const of = (principal: string, changes: Used = {}): Used => ({ principal, policies, ...changes });
  await recordAttempts(api.db, [
    of('max', { team: teamId, costNano: 9_000n }),
    of('max', { team: teamId, costNano: 1_000n, admittedAt: yesterday, outcome: 'upstream_error' }),
    of('eve', { costNano: 500_000n }),
    of('lea', { costNano: 7_000n, admittedAt: lastMonth }),
  ]);
  const key = async (principal_id: string) => (await api.issue({ principal_id, scopes: ['usage:read'] })).key;

  expect(await summary()).toMatchObject({
    reach: 'all',
    today: { from: '2026-11-20T00:00:00.000Z', cost_micro_usd: 509, requests: 2, failed_attempts: 0 },
    month: { from: '2026-11-01T00:00:00.000Z', cost_micro_usd: 510, requests: 3, failed_attempts: 1 },
  });
  const { days } = await summary();
  expect(days.map(({ from }) => String(from).slice(8, 10)).join()).toBe(
    '01,02,03,04,05,06,07,08,09,10,11,12,13,14,15,16,17,18,19,20',
  );
  expect(days.slice(-3)).toMatchObject([
    { cost_micro_usd: 0, requests: 0 },
    { cost_micro_usd: 1, requests: 1 },
    { cost_micro_usd: 509, requests: 2 },
  ]);
  const ofLead = await summary(await key('lea'));
  expect(ofLead).toMatchObject({
    reach: 'teams',
    today: { cost_micro_usd: 9 },
    month: { cost_micro_usd: 10 },
  });
  expect(ofLead.budgets.map(({ team_name, policy_name }) => [team_name, policy_name])).toEqual([
    [null, 'crew'],
    ['crew', 'crew'],
  ]);
  const ofMember = await summary(await key('max'));
  expect(ofMember).toMatchObject({ reach: 'own', month: { cost_micro_usd: 10, requests: 2 } });
  expect(ofMember.budgets).toHaveLength(1);
  expect(await summary(await key('nobody'))).toMatchObject({
    reach: 'own',
    month: { cost_micro_usd: 0 },
    complete: true,
  });
});

it('shows how the newest answers went, to each those within its reach', async () => {
  const teamId = await team('observers', { una: 'lead', uma: 'member' });
  await recordAttempts(api.db, [
    { principal: 'uma', team: teamId },
    { principal: 'uma', team: teamId, cacheHit: true },
    { principal: 'zed', outcome: 'upstream_error' },
    { principal: 'zed', admittedAt: new Date('2026-11-18T09:00:00Z') },
  ]);
  const recent = { answers: 2, cache_hits: 1, duration_ms: { p50: 1_500, p95: 1_500 }, first_token_ms: null };
  expect((await summary()).recent).toMatchObject({ ...recent, since: '2026-11-20T09:00:00.000Z' });
  const { key } = await api.issue({ principal_id: 'una', scopes: ['usage:read'] });
  expect((await summary(key)).recent).toMatchObject(recent);
  const other = await api.issue({ principal_id: 'zed', scopes: ['usage:read'] });
  expect((await summary(other.key)).recent).toMatchObject({ answers: 0, since: null, duration_ms: null });
});

it('adds up the overhead that proxies reported in the last minute, for roles that read all', async () => {
  expect((await summary()).overhead).toBeNull();
  const report = (proxyId: string, counts: number[]) => ({
    proxyId,
    boundsUs: [100, 200],
    counts,
    windowMs: 240_000,
  });
  api.proxyOverheads.heard(JSON.stringify([report('a', [30, 0, 0]), report('b', [0, 8, 2])]));
  const overhead = { p50_ms: 0.07, p95_ms: 0.2, requests: 40, proxies: 2, window_ms: 240_000 };
  expect((await summary()).overhead).toEqual(overhead);
  const { key } = await api.issue({ principal_id: 'plain', scopes: ['usage:read'] });
  expect((await summary(key)).overhead).toBeNull();
  const now = api.now;
  api.now = new Date(now.getTime() + 61_000);
  expect((await summary()).overhead).toBeNull();
  api.now = now;
});

it('tells an operator what is wrong with proxies, connectors and the ledger, and nobody else', async () => {
  expect(await kinds()).toContain('no_proxy');
  const id = await serving();
  expect(await kinds()).not.toContain('no_proxy');
  await serving({ id, waitingUsageBytes: 81n });
  const [spool] = (await summary()).attention;
  expect(spool).toMatchObject({ kind: 'spools_filling', message: expect.stringContaining('pod-1') });
  const body = { name: 'gone', provider: 'openai', credential_ref: 'env:NOT_SET' };
  const connector = (await api.call('POST', '/connectors', { body })).body;
  expect((await summary()).attention).toContainEqual(
    expect.objectContaining({ kind: 'connector_unusable', resource_ids: [connector.id] }),
  );
  await api.db
    .insertInto('quarantined_usage')
    .values({ kind: 'event', reason: 'odd', payload: Buffer.from('x'), received_at: api.now })
    .execute();
  expect(await kinds()).toContain('quarantine');
  const { key } = await api.issue({ principal_id: 'plain', scopes: ['usage:read'] });
  expect(await kinds(key)).toEqual([]);
  expect((await api.call('GET', '/ledger')).body).toMatchObject({
    quarantined: 1,
    serving_proxies: 1,
    waiting_usage_bytes: 81,
  });
  await api.db.deleteFrom('quarantined_usage').execute();
});

it('warns of budgets that end and keys that expire: a person of its own, an operator of all', async () => {
  await serving();
  const { id } = (await api.call('POST', '/policies', { body: { name: 'small', limit_micro_usd: 10 } })).body;
  const expires_at = new Date(api.now.getTime() + 3_600_000).toISOString();
  const fields = { policy_id: id, scopes: ['usage:read'] };
  const ann = await api.issue({ ...fields, principal_id: 'ann', expires_at });
  const bob = await api.issue({ ...fields, principal_id: 'bob' });
  const spend = (principal: string, costNano: bigint) =>
    recordAttempts(api.db, [
      {
        principal,
        costNano,
        buckets: [
          {
            policyId: String(id),
            counterVersion: 1,
            subject: `principal:${principal}`,
            windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
          },
        ],
      },
    ]);
  await spend('ann', 8_000n);
  const found = async (key?: string) =>
    (await summary(key)).attention.flatMap(({ kind, message }) =>
      ['budget_low', 'keys_expiring'].includes(kind) ? [message] : [],
    );
  const expiring = '1 key expires within a week.';
  expect(await found(ann.key)).toEqual(['1 budget is more than 80 % spent: ann (small).', expiring]);
  expect(await found()).toEqual(['1 budget is more than 80 % spent: ann (small).', expiring]);
  expect(await found(bob.key)).toEqual([]);
  await spend('ann', 2_000n);
  expect((await found(ann.key))[0]).toBe('1 budget is spent: ann (small).');
});

it('names the key whose counter is close to its limit', async () => {
  const body = { name: 'each', limit_micro_usd: 10, counter_scope: 'key' };
  const policyId = String((await api.call('POST', '/policies', { body })).body.id);
  const key = await api.issue({ name: 'nightly batch', principal_id: 'cal', policy_id: policyId });
  const windowStartMs = BigInt(Date.parse('2026-11-01T00:00:00Z'));
  const bucket = { policyId, counterVersion: 1, subject: `key:${key.id}`, windowStartMs };
  await recordAttempts(api.db, [{ principal: 'cal', costNano: 9_000n, buckets: [bucket] }]);
  const { budgets, attention } = await summary();
  expect(budgets).toMatchObject([{ policy_id: policyId, key_id: key.id, key_name: 'nightly batch' }]);
  const message = '1 budget is more than 80 % spent: nightly batch (each).';
  expect(attention).toContainEqual(expect.objectContaining({ kind: 'budget_low', message }));
});

it('shows the circuit breakers of the connectors over all proxies that serve', async () => {
  const body = { name: 'checked', provider: 'openai', credential_ref: 'env:OPENAI_API_KEY' };
  const { id } = (await api.call('POST', '/connectors', { body })).body as { id: string };
  const reported = (state: 'dead' | 'open' | 'half_open', down_for_ms: number) => [
    { connector_id: id, state, down_for_ms },
    // Of a connector that was deleted.
    { connector_id: newId('con'), state, down_for_ms },
  ];
  const health = async () =>
    ((await api.call('GET', '/connectors/health?name_contains=checked')).body.data as Json[])[0];
  expect(await health()).toMatchObject({ connector_id: id, state: 'closed', proxies: [], not_closed_at: 0 });
  const open = await serving({ connectors: reported('open', 5_000) });
  const dead = await serving({ connectors: reported('dead', 10) });
  // It serves no longer.
  await serving({ connectors: reported('dead', 99), maxStalenessMs: -1 });
  await recordAttempts(api.db, [
    { connector: id, admittedAt: new Date(api.now.getTime() - 1_000) },
    { connector: id, admittedAt: new Date(api.now.getTime() - 1_000), outcome: 'upstream_error' },
    { connector: id, admittedAt: new Date(api.now.getTime() - 600_000), outcome: 'upstream_error' },
  ]);
  expect(await health()).toMatchObject({
    state: 'dead',
    not_closed_at: 2,
    attempts: 2,
    failed_attempts: 1,
    proxies: [
      { proxy_id: dead, proxy_name: 'pod-1', state: 'dead', down_for_ms: 10 },
      { proxy_id: open, state: 'open', down_for_ms: 5_000 },
    ],
  });
});
