import { readdir, readFile } from 'node:fs/promises';
import { createDb, type Database } from '@weighbridge/database';
import { newId, newUuid } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { listPrices } from '../catalog/catalogPrices.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import { readRequest } from './requests.service.ts';

const MIGRATIONS = new URL('../../../../../packages/database/migrations/', import.meta.url);
const NOW = new Date();

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {}, maxConnections: 1 });
  await sql`DROP SCHEMA public CASCADE`.execute(db);
  await sql`CREATE SCHEMA public`.execute(db);
  // The schema of the release before prices had dimensions.
  await migrate('0000', '0018');
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

async function migrate(from: string, to: string): Promise<void> {
  for (const name of (await readdir(MIGRATIONS)).sort()) {
    if (name >= from && name < to)
      await sql.raw(await readFile(new URL(name, MIGRATIONS), 'utf8')).execute(db);
  }
}

const operator = { kind: 'key', keyId: 'key_op', principalId: 'operator', scopes: ['operator'] } as never;
const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });

it('rows of before prices had dimensions read as they were', async () => {
  const [requestId, eventId] = [newId('req'), newUuid()];
  await sql`
    INSERT INTO usage_events (event_id, request_id, key_id, principal_id, policy_id, bucket_keys, model_requested, model,
      connector_id, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
      cost_nano_usd, price_version, estimated, outcome, http_status, streamed, admitted_at, settled_at, first_byte_us,
      duration_us, attribution, response_id)
    VALUES (${eventId}, ${requestId}, 'key_1', 'ada', 'pol_a', ARRAY['pol_a/1/0/policy'], 'gpt-4o', 'openai/gpt-4o',
      'con_1', 10, 4, 3, 2, 5, 1234, 7, true, 'success', 200, true, ${NOW}, ${NOW}, 1500, 2500, '{"team": "t"}',
      'resp_1')`.execute(db);
  await sql`INSERT INTO models (id, provider, upstream_name, context_window, origin, updated_at)
    VALUES ('openai/gpt-4o', 'openai', 'gpt-4o', 1000, 'catalog', now())`.execute(db);
  const rest = {
    output_nano_usd: '2',
    cache_read_nano_usd: '1',
    cache_write_nano_usd: '1',
    cache_write_1h_nano_usd: '1',
  };
  const tiers = JSON.stringify([
    { above_input_tokens: 5, input_nano_usd: '3000000000', ...rest },
    { above_input_tokens: 9, input_nano_usd: '4000000000', ...rest },
  ]);
  for (const [version, origin] of [
    [1, 'catalog'],
    [2, 'operator'],
  ] as const) {
    await sql`
      INSERT INTO model_prices (model_id, version, origin, input_nano_usd, output_nano_usd, cache_read_nano_usd,
        cache_write_nano_usd, cache_write_1h_nano_usd, tiers, created_at)
      VALUES ('openai/gpt-4o', ${version}, ${origin}, 1000000000, 2000000000, 1, 1, 1, ${tiers}, now())`.execute(
      db,
    );
  }
  await sql`INSERT INTO connectors (id, name, provider, dialect, base_url, priority, enabled, origin, created_at,
      updated_at)
    VALUES ('con_1', 'c', 'openai', 'openai', 'https://a.test', 0, true, 'operator', now(), now())`.execute(
    db,
  );
  await sql`
    INSERT INTO connector_prices (connector_id, model_id, version, input_nano_usd, output_nano_usd, cache_read_nano_usd,
      cache_write_nano_usd, cache_write_1h_nano_usd, tiers, created_at)
    VALUES ('con_1', 'openai/gpt-4o', 1, 4000000000, 2, 1, 1, 1, '[]', now())`.execute(db);

  await migrate('0018', '9999');

  const request = await readRequest({ db, now: () => NOW }, operator, requestId);
  expect(request).toEqual({
    request_id: requestId,
    admitted_at: NOW.toISOString(),
    outcome: 'success',
    model_requested: 'gpt-4o',
    key_id: 'key_1',
    key_name: null,
    principal_id: 'ada',
    team_id: null,
    team_name: null,
    attribution: { team: 't' },
    policies: [{ policy_id: 'pol_a', name: null, window_start: '1970-01-01T00:00:00.000Z' }],
    cost_micro_usd: 1,
    refusal: null,
    attempts: [
      {
        event_id: eventId,
        model_requested: 'gpt-4o',
        model: 'openai/gpt-4o',
        provider: 'openai',
        connector_id: 'con_1',
        connector_name: 'c',
        outcome: 'success',
        http_status: 200,
        streamed: true,
        cache_hit: false,
        input_tokens: 10,
        cache_read_tokens: 4,
        cache_write_tokens: 3,
        cache_write_1h_tokens: 2,
        output_tokens: 5,
        input_audio_tokens: 0,
        input_image_tokens: 0,
        cache_read_audio_tokens: 0,
        output_audio_tokens: 0,
        output_image_tokens: 0,
        service_tier: null,
        speed: null,
        geography: null,
        tool_uses: {},
        price_incomplete: false,
        unpriced: [],
        priced_model: null,
        dropped: [],
        skipped: [],
        cost_micro_usd: 1,
        cost_nano_usd: '1234',
        price_version: 7,
        price_source: 'catalog',
        estimated: true,
        admitted_at: NOW.toISOString(),
        settled_at: NOW.toISOString(),
        first_byte_ms: 1.5,
        duration_ms: 2.5,
        response_id: 'resp_1',
      },
    ],
    corrections: [],
    feedback: null,
    costs: [{ event_id: eventId, by_class: null }],
  });
});

it("an operator's earlier prices go on to cover images at the price of input; shipped ones have none", async () => {
  // Only the version in force has a document yet.
  const { rows } = await sql`SELECT version FROM model_prices WHERE price IS NOT NULL`.execute(db);
  expect(rows).toEqual([{ version: 2 }]);
  const { data } = await listPrices({ db, now: () => NOW }, 'openai/gpt-4o', {});
  expect(data.map(({ origin }) => origin)).toEqual(['operator', 'catalog']);
  const rates = { input_price: usd(1), output_price: usd(2), input_audio_price: null };
  expect(data.map(({ price }) => price)).toMatchObject([
    {
      ...rates,
      input_image_price: usd(1),
      tiers: [
        { above_input_tokens: 5, input_price: usd(3), input_image_price: usd(3) },
        { above_input_tokens: 9, input_price: usd(4), input_image_price: usd(4) },
      ],
      variants: [],
      tool_prices: {},
    },
    { ...rates, input_image_price: null, tiers: [{ input_image_price: null }, { input_image_price: null }] },
  ]);
  const [negotiated] = (await negotiatedPrices(db, ['con_1'])).prices.get('con_1') ?? [];
  expect(negotiated?.price).toMatchObject({ inputImage: 4_000_000_000n, tiers: [], variants: [] });
});
