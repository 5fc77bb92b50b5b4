import { randomBytes } from 'node:crypto';
import { newUuid } from '@weighbridge/domain';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';
import { recordSeen, type SeenProxy } from '../proxies/proxies.repository.ts';
import { recordConditions } from './conditions.service.ts';

const DAY_MS = 24 * 3_600_000;
let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    OPENAI_API_KEY: 'sk-of-the-environment',
  });
  await api.call('POST', '/webhooks', { body: { name: 'all', url: 'https://hooks.test/' } });
});
afterAll(() => api.close());
beforeEach(() => sql`DELETE FROM webhook_events`.execute(api.db));

/** A proxy that serves, with what it reports of connectors. */
async function addProxy(connectors: SeenProxy['connectors']): Promise<void> {
  const load = { inFlightRequests: 0, waitingUsageBytes: 0n, usageLimitBytes: 100n, connectors };
  const about = { name: 'pod', version: '1', takesRows: true, appliedRevision: 0n, connectedAt: api.now };
  await recordSeen(api.db, [{ id: newUuid(), ...about, ...load, maxStalenessMs: 600_000 }]);
}

const check = () => recordConditions({ db: api.db, now: () => api.now });

async function recorded(type: string): Promise<Record<string, unknown>[]> {
  const rows = await api.db
    .selectFrom('webhook_events')
    .select('data')
    .where('type', '=', type)
    .orderBy('id')
    .execute();
  return rows.map(({ data }) => data as Record<string, unknown>);
}

it('a key in use that expires within a week is reported once, and again with another expiry', async () => {
  const at = (days: number) => new Date(api.now.getTime() + days * DAY_MS).toISOString();
  const { id } = await api.issue({ name: 'soon', expires_at: at(6) });
  await api.issue({ name: 'later', expires_at: at(8) });
  const revoked = await api.issue({ name: 'revoked', expires_at: at(6) });
  await api.call('DELETE', `/keys/${revoked.id}`);
  await api.issue({ name: 'disabled', expires_at: at(6), disabled: true });
  await check();
  await check();
  expect(await recorded('key.expiring')).toMatchObject([{ key_id: id, expires_at: at(6) }]);
  await api.call('PATCH', `/keys/${id}`, { body: { expires_at: at(5) } });
  await check();
  expect(await recorded('key.expiring')).toHaveLength(2);
});

it('a model that a connector names is reported while it has no price', async () => {
  await api.call('PUT', '/catalog/models/openai%2Fnew', { body: { context_window: 1_000 } });
  await api.call('PUT', '/catalog/models/openai%2Funused', { body: { context_window: 1_000 } });
  const { body } = await api.call('POST', '/connectors', {
    body: {
      name: 'second',
      provider: 'openai',
      credential_ref: 'env:OPENAI_API_KEY',
      models: ['openai/new'],
    },
  });
  await check();
  await check();
  expect(await recorded('price.missing')).toEqual([{ connector_id: body.id, model: 'openai/new' }]);
});

it('prices that nothing confirmed for 90 days are reported once a month for each origin', async () => {
  await sql`UPDATE models SET shipped_priced_at = ${api.now}`.execute(api.db);
  await check();
  expect(await recorded('price.stale')).toEqual([]);
  const priced_at = new Date(api.now.getTime() - 91 * DAY_MS);
  await sql`UPDATE models SET shipped_priced_at = ${priced_at} WHERE id IN ('openai/gpt-4o', 'mistral/mistral-large-latest')`.execute(
    api.db,
  );
  await sql`UPDATE model_prices SET created_at = ${priced_at}`.execute(api.db);
  await check();
  await check();
  expect(await recorded('price.stale')).toMatchObject([
    { origin: 'catalog', models: 1, model: 'openai/gpt-4o' },
  ]);
});

it('a connector is reported once an hour if each of its recent attempts failed through the vendor', async () => {
  const { body } = await api.call('GET', '/connectors?provider=openai');
  const [connector] = body.data as { id: string }[];
  const ids = await recordAttempts(
    api.db,
    Array.from({ length: 6 }, () => ({ principal: 'ada' })),
  );
  const set = (status: number, outcome: string, of: readonly string[]) =>
    sql`UPDATE usage_events SET connector_id = ${connector?.id ?? ''}, http_status = ${status}, outcome = ${outcome},
      admitted_at = ${api.now} WHERE request_id = ANY (${[...of]}::text[])`.execute(api.db);
  await set(400, 'upstream_error', ids);
  await check();
  await set(500, 'upstream_error', ids);
  await set(200, 'success', ids.slice(0, 1));
  await check();
  expect(await recorded('connector.down')).toEqual([]);
  await set(401, 'upstream_error', ids);
  await check();
  await check();
  expect(await recorded('connector.down')).toMatchObject([
    { connector_id: connector?.id, provider: 'openai', reason: 'the vendor rejects the credential (401)' },
  ]);
});

it('a connector that a proxy leaves out is reported, unless it served a request lately', async () => {
  await sql`DELETE FROM usage_events`.execute(api.db);
  const create = async (name: string) => {
    const fields = { provider: 'openai', credential_ref: 'env:OPENAI_API_KEY' };
    return String((await api.call('POST', '/connectors', { body: { name, ...fields } })).body.id);
  };
  const open = await create('open');
  const short = await create('open for a moment');
  const trying = await create('half open');
  const serving = await create('open at one proxy alone');
  const refused = await create('refused');
  const [served] = await recordAttempts(api.db, [{ principal: 'ada' }]);
  await sql`UPDATE usage_events SET connector_id = ${serving}, admitted_at = ${api.now} WHERE request_id = ${served}`.execute(
    api.db,
  );
  await addProxy([
    { connector_id: open, state: 'open', down_for_ms: 40_000 },
    { connector_id: short, state: 'open', down_for_ms: 5_000 },
    { connector_id: trying, state: 'half_open', down_for_ms: 90_000 },
    { connector_id: serving, state: 'open', down_for_ms: 90_000 },
    { connector_id: refused, state: 'dead', down_for_ms: 60_000 },
  ]);
  await addProxy([{ connector_id: open, state: 'open', down_for_ms: 31_000 }]);
  await check();
  await check();
  const events = await recorded('connector.down');
  expect(Object.fromEntries(events.map(({ connector_id, reason }) => [connector_id, reason]))).toEqual({
    [open]: 'its circuit breaker is open at 2 proxies',
    [refused]: 'the vendor rejects the credential, as 1 proxy found',
  });
  expect(events).toHaveLength(2);
});
