import { randomBytes } from 'node:crypto';
import { toBinary } from '@bufbuild/protobuf';
import { SnapshotSchema } from '@weighbridge/contracts';
import { MAX_ROW_BYTES, MAX_TABLE_BYTES, MAX_WHOLE_TABLE_BYTES } from '@weighbridge/state';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordGoodbye, recordSeen, type SeenProxy } from '../proxies/proxies.repository.ts';
import { tableSizeAtMost } from './tableSize.repository.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64') });
});
afterAll(() => api.close());

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const PRICE = { input_price: usd(1), output_price: usd(2) };
const connector = (name: string, more: object = {}) => ({
  name,
  provider: 'openai',
  base_url: 'https://api.openai.com/v1',
  credential: 'secret',
  ...more,
});
const sizes = async () => ({
  atMost: (await api.db.transaction().execute(tableSizeAtMost)).bytes,
  sent: toBinary(SnapshotSchema, await api.snapshot()).length,
});

/** Models of 20 kB each: more than may be, as only another hand can have made them. */
async function fill(count = 2_100): Promise<void> {
  await sql`
    INSERT INTO models (id, provider, upstream_name, context_window, other_names, origin, updated_at)
    SELECT 'openai/filler-' || n, 'openai', 'filler-' || n, 1000,
      ARRAY(SELECT 'name-' || n || '-' || m || repeat('x', 190) FROM generate_series(1, 100) AS m), 'operator', now()
    FROM generate_series(1, ${count}) AS n`.execute(api.db);
}
const empty = () => sql`DELETE FROM models WHERE id LIKE 'openai/filler-%'`.execute(api.db);

async function expectRefused(method: 'POST' | 'PUT' | 'PATCH', path: string, body: object): Promise<void> {
  const revision = await api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow();
  const response = await api.call(method, path, { body });
  expect([path, response.status]).toEqual([path, 409]);
  expect(response.body.error).toMatchObject({
    code: 'table_too_large',
    table_bytes: expect.any(Number),
    max_table_bytes: MAX_TABLE_BYTES,
  });
  expect((response.body.error as Json).message).toMatch(
    /would be 4\d\.\d MiB; proxies accept 32\.0 MiB\. Delete or disable/,
  );
  // Nothing was written.
  expect(await api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow()).toEqual(revision);
}

it('counts at least what proxies are sent, of the shipped catalog and of all kinds of rows', async () => {
  const shipped = await sizes();
  expect(shipped.atMost).toBeGreaterThan(shipped.sent);
  // The catalog as shipped leaves room for as much again, several times.
  expect(shipped.atMost).toBeLessThan(MAX_TABLE_BYTES / 4);

  const models = Array.from({ length: 200 }, (_, n) => `openai/m-${n}-"é"`);
  const upstreamNames = Object.fromEntries(models.map((id) => [id, `deployment ${id} ☃ "quoted"`]));
  const created = await api.call('POST', '/connectors', {
    body: connector('all', { models, upstream_names: upstreamNames, forward_headers: ['x-a'] }),
  });
  expect(created).toMatchObject({ status: 201 });
  const served = (await api.snapshot()).models.filter(({ provider }) => provider === 'openai');
  for (const { id } of served.slice(0, 5)) {
    const path = `/connectors/${created.body.id}/prices/${id}`;
    const body = { ...PRICE, tool_prices: { web_search: usd(1) } };
    expect(await api.call('PUT', path, { body })).toMatchObject({ status: 200 });
  }
  const targets = models.slice(0, 50).map((model) => ({ model, weight: 1 }));
  await api.call('POST', '/profiles', { body: { name: 'wide', strategy: 'weighted', targets } });
  await api.call('POST', '/aliases', { body: { name: 'short', target: 'router/wide' } });
  const filled = await sizes();
  expect(filled.atMost).toBeGreaterThan(filled.sent);
  expect(filled.atMost - shipped.atMost).toBeGreaterThan(filled.sent - shipped.sent);
});

it('refuses every write that adds to a table of 40 MiB, and none that takes from it or concerns keys', async () => {
  const one = await api.call('POST', '/connectors', { body: connector('one') });
  const profile = await api.call('POST', '/profiles', {
    body: { name: 'one', strategy: 'ordered', targets: [{ model: 'openai/gpt-4o' }] },
  });
  const alias = await api.call('POST', '/aliases', { body: { name: 'one', target: 'router/one' } });
  const [model] = (await api.snapshot()).models.filter(({ provider }) => provider === 'openai');
  const priced = `/connectors/${one.body.id}/prices/${model?.id}`;
  expect(await api.call('PUT', priced, { body: PRICE })).toMatchObject({ status: 200 });
  await fill();
  try {
    await expectRefused('POST', '/connectors', connector('two'));
    await expectRefused('PATCH', `/connectors/${one.body.id}`, { priority: 5 });
    await expectRefused('PUT', priced, { ...PRICE, output_price: usd(3) });
    await expectRefused('POST', '/profiles', {
      name: 'two',
      strategy: 'ordered',
      targets: [{ model: 'a/b' }],
    });
    await expectRefused('PATCH', `/profiles/${profile.body.id}`, { targets: [{ model: 'a/b' }] });
    await expectRefused('POST', '/aliases', { name: 'two', target: 'router/one' });
    await expectRefused('PATCH', `/aliases/${alias.body.id}`, { name: 'other' });
    await expectRefused('PUT', '/catalog/models/openai/two', { context_window: 1_000 });
    await expectRefused('PATCH', `/catalog/models/${model?.id}`, { context_window: 5_000 });
    await expectRefused('POST', `/catalog/models/${model?.id}/prices`, PRICE);

    // Keys are served on, and what is too much can be taken away.
    const { id } = await api.issue();
    expect((await api.call('PATCH', `/keys/${id}`, { body: { disabled: true } })).status).toBe(200);
    expect((await api.call('POST', '/policies', { body: { name: 'p' } })).status).toBe(201);
    for (const path of [`/aliases/${alias.body.id}`, `/profiles/${profile.body.id}`, priced]) {
      expect([path, (await api.call('DELETE', path)).status]).toEqual([path, 200]);
    }
    const off = await api.call('PATCH', `/connectors/${one.body.id}`, { body: { enabled: false } });
    expect(off.status).toBe(200);
    const disabled = await api.call('PATCH', `/catalog/models/${model?.id}`, { body: { disabled: true } });
    expect(disabled.status).toBe(200);
    expect((await api.call('DELETE', `/connectors/${one.body.id}`)).status).toBe(200);
  } finally {
    await empty();
  }
  expect((await api.call('POST', '/connectors', { body: connector('three') })).status).toBe(201);
});

it('reads each version of a price once, however many models have one', async () => {
  const count = 3_000;
  try {
    await sql`
      INSERT INTO models (id, provider, upstream_name, context_window, origin, updated_at)
      SELECT 'openai/filler-' || n, 'openai', 'filler-' || n, 1000, 'operator', now() FROM generate_series(1, ${count}) AS n`.execute(
      api.db,
    );
    await sql`
      INSERT INTO model_prices
      SELECT (jsonb_populate_record(one, jsonb_build_object('model_id', models.id))).*
      FROM model_prices AS one, models
      WHERE one.model_id = 'openai/gpt-4o' AND one.version = 1 AND models.id LIKE 'openai/filler-%'`.execute(
      api.db,
    );
    const read = await api.db.transaction().execute(async (tx) => {
      await tableSizeAtMost(tx);
      const { rows } = await sql<{ read: bigint }>`
        SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) AS read FROM pg_stat_xact_user_tables
        WHERE relname = 'model_prices'`.execute(tx);
      return Number(rows[0]?.read);
    });
    expect(read).toBeGreaterThan(count);
    expect(read).toBeLessThan(3 * count);
  } finally {
    await sql`DELETE FROM model_prices WHERE model_id LIKE 'openai/filler-%'`.execute(api.db);
    await empty();
  }
});

it('refuses what a proxy of release 0.1.0 cannot be sent, only while one may serve', async () => {
  await fill(1_000);
  const add = (name: string) => api.call('POST', '/connectors', { body: connector(name) });
  const old: SeenProxy = {
    id: 'old',
    name: 'old',
    version: '0.1.0',
    takesRows: false,
    appliedRevision: 0n,
    inFlightRequests: 0,
    waitingUsageBytes: 0n,
    usageLimitBytes: 0n,
    connectors: [],
    connectedAt: new Date(),
    maxStalenessMs: 600_000,
  };
  try {
    expect((await add('at 20 MiB')).status).toBe(201);
    await recordSeen(api.db, [old, { ...old, id: 'new', takesRows: true }]);
    const refused = await add('refused');
    expect([refused.status, (refused.body.error as Json).message]).toEqual([
      409,
      expect.stringMatching(
        /would be 2\d\.\d MiB; proxies accept 14\.0 MiB while one of them is of release 0\.1\.0\. Upgrade it, or delete or disable/,
      ),
    ]);
    expect(refused.body.error).toMatchObject({ max_table_bytes: MAX_WHOLE_TABLE_BYTES });
    await recordGoodbye(api.db, 'old');
    expect((await add('after it left')).status).toBe(201);
  } finally {
    await empty();
    await recordGoodbye(api.db, 'old');
  }
});

it('refuses writes while one row is too large for a message', async () => {
  await sql`
    INSERT INTO models (id, provider, upstream_name, context_window, other_names, origin, updated_at)
    VALUES ('openai/filler-1', 'openai', 'one', 1000, ARRAY[repeat('x', 5000000)], 'operator', now())`.execute(
    api.db,
  );
  try {
    const refused = await api.call('POST', '/connectors', { body: connector('beside') });
    expect(refused).toMatchObject({
      status: 409,
      body: {
        error: { code: 'table_too_large', row_bytes: expect.any(Number), max_row_bytes: MAX_ROW_BYTES },
      },
    });
    const disabled = await api.call('PATCH', '/catalog/models/openai/filler-1', { body: { disabled: true } });
    expect(disabled.status).toBe(200);
    expect((await api.call('POST', '/connectors', { body: connector('beside') })).status).toBe(201);
  } finally {
    await empty();
  }
});
