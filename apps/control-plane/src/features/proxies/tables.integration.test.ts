import { randomBytes } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import { WatchResponseSchema } from '@weighbridge/contracts';
import { NO_TABLES, type Tables, tablesOf, withRows } from '@weighbridge/state';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import type { Update } from './changeFeed.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64') });
});
afterAll(() => api.close());

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const priceOf = (units: number) => ({ input_price: usd(units), output_price: usd(units) });
const connector = (name: string, more: object = {}) => {
  const at = { provider: 'openai', base_url: 'https://api.openai.com/v1', credential: 'secret' };
  return { name, ...at, ...more };
};

type Method = 'POST' | 'PUT' | 'PATCH' | 'DELETE';

async function ok(method: Method, path: string, body?: object): Promise<string> {
  const response = await api.call(method, path, { ...(body && { body }) });
  expect([path, response.status < 300, response.body]).toEqual([path, true, expect.anything()]);
  return String(response.body.id);
}

/** What a proxy has after an update. */
function applied(tables: Tables, { messages }: Update): Tables {
  return messages.reduce(
    (now, message) => (message.case === 'rows' ? withRows(now, message.value.rows) : now),
    tables,
  );
}

function sizeOf({ messages }: Update): number {
  return messages.reduce(
    (sum, message) => sum + toBinary(WatchResponseSchema, create(WatchResponseSchema, { message })).length,
    0,
  );
}

const inOrder = (tables: Tables) =>
  Object.fromEntries(
    Object.entries(tables).map(([kind, rows]) => [
      kind,
      [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
    ]),
  );

/** Every kind of change of tables, as an operator makes it. */
async function* changes(): AsyncGenerator<string> {
  const first = await ok('POST', '/connectors', connector('first'));
  yield 'a connector, with which its models are served';
  const second = await ok(
    'POST',
    '/connectors',
    connector('second', { models: ['openai/gpt-4o', 'openai/own*'] }),
  );
  yield 'another connector';
  const price = `/connectors/${first}/prices/openai/gpt-4o`;
  await ok('PUT', price, priceOf(3));
  yield 'a negotiated price';
  await ok('PUT', price, priceOf(4));
  yield 'another one';
  await ok('PATCH', `/connectors/${second}`, {
    priority: 7,
    upstream_names: { 'openai/gpt-4o': 'deployment' },
  });
  yield 'an edited connector';
  await ok('PUT', '/catalog/models/openai/own-1', { context_window: 1_000 });
  yield 'a model without a price';
  await ok('POST', '/catalog/models/openai/own-1/prices', priceOf(1));
  yield 'its price';
  await ok('POST', '/catalog/models/openai/own-1/prices', priceOf(2));
  yield 'another price';
  await ok('PATCH', '/catalog/models/openai/own-1', { other_names: ['mine'] });
  yield 'an edited model';
  await ok('PATCH', '/catalog/models/openai/own-1', { disabled: true });
  yield 'a disabled model';
  await ok('PATCH', '/catalog/models/openai/own-1', { disabled: false });
  yield 'the same, enabled';
  const profile = await ok('POST', '/profiles', {
    name: 'p',
    strategy: 'ordered',
    targets: [{ model: 'openai/own-1' }],
  });
  yield 'a profile';
  await ok('PATCH', `/profiles/${profile}`, { targets: [{ model: 'openai/gpt-4o' }] });
  yield 'an edited profile';
  const alias = await ok('POST', '/aliases', { name: 'short', target: 'router/p' });
  yield 'an alias';
  await ok('PATCH', `/aliases/${alias}`, { name: 'shorter' });
  yield 'an edited alias';
  await ok('PATCH', `/connectors/${first}`, { enabled: false });
  yield 'a disabled connector, whose models are served by the other or by none';
  await ok('PATCH', `/connectors/${first}`, { enabled: true });
  yield 'the same, enabled, with its prices';
  await ok('DELETE', price);
  yield 'the end of a negotiated price';
  await ok('DELETE', '/catalog/models/openai/own-1');
  yield 'a deleted model';
  await ok('DELETE', `/aliases/${alias}`);
  yield 'a deleted alias';
  await ok('DELETE', `/profiles/${profile}`);
  yield 'a deleted profile';
  await ok('DELETE', `/connectors/${first}`);
  yield 'a deleted connector';
  await ok('DELETE', `/connectors/${second}`);
  yield 'the last connector of its provider';
}

it('the rows that a proxy gets after each kind of change give the tables that a fresh snapshot has', async () => {
  const feed = api.changeFeed();
  await feed.advance();
  let tables = applied(NO_TABLES, feed.snapshot({ takesRows: true }));
  let count = 0;
  for await (const change of changes()) {
    const from = feed.position?.revision ?? 0n;
    await feed.advance();
    const update = feed.updateAfter(from, { takesRows: true });
    if (!update) throw new Error('the feed missed a change');
    tables = applied(tables, update);
    expect([change, inOrder(tables)]).toEqual([change, inOrder(tablesOf(await api.snapshot()))]);
    expect([change, update.messages.length]).toEqual([change, 2]);
    count++;
  }
  expect(count).toBeGreaterThan(20);
});

it('a changed price is as many bytes among 1,000 models and prices as among few', async () => {
  const id = await ok('POST', '/connectors', connector('wide'));
  const feed = api.changeFeed();
  await feed.advance();
  let units = 1;
  const sizes = async () => {
    const from = feed.position?.revision ?? 0n;
    await ok('POST', '/catalog/models/openai/gpt-4o/prices', priceOf(++units));
    await feed.advance();
    const between = feed.position?.revision ?? 0n;
    await ok('PUT', `/connectors/${id}/prices/openai/gpt-4o`, priceOf(++units));
    await feed.advance();
    const listed = feed.updateAfter(from, { takesRows: true });
    const negotiated = feed.updateAfter(between, { takesRows: true });
    return [listed, negotiated].map((update) => (update ? sizeOf(update) : 0));
  };
  const few = await sizes();
  await sql`
    INSERT INTO models (id, provider, upstream_name, context_window, origin, updated_at)
    SELECT 'openai/many-' || n, 'openai', 'many-' || n, 1000, 'operator', now() FROM generate_series(1, 1000) AS n`.execute(
    api.db,
  );
  for (const table of ['model_prices', 'connector_prices']) {
    await sql`
      INSERT INTO ${sql.table(table)}
      SELECT (jsonb_populate_record(one, jsonb_build_object('model_id', 'openai/many-' || n, 'version', 1))).*
      FROM ${sql.table(table)} AS one, generate_series(1, 1000) AS n
      WHERE ctid = (
        SELECT ctid FROM ${sql.table(table)} WHERE model_id = 'openai/gpt-4o' ORDER BY created_at DESC LIMIT 1
      )`.execute(api.db);
  }
  const before = feed.tableBytes;
  await ok('PATCH', `/connectors/${id}`, { priority: 9 });
  await feed.advance();
  expect(feed.tableBytes - before).toBeGreaterThan(1_000 * 100);
  const many = await sizes();
  for (const [at, size] of many.entries()) expect(Math.abs(size - (few[at] ?? 0))).toBeLessThan(20);
  expect(Math.max(...many)).toBeLessThan(500);
});
