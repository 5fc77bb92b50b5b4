import { createLogger } from '@weighbridge/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { type CatalogFileModel, readCatalogFiles } from './catalogFile.ts';
import { importCatalog } from './catalogImport.service.ts';
import { importDuePrices } from './duePrices.service.ts';
import { type ShippedModel, shippedCatalog } from './shippedCatalog.ts';

const FILES = await readCatalogFiles();
/** As of the clock of a test API. */
const SHIPPED = shippedCatalog(FILES, new Date('2026-11-20T10:00:00Z'));

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor' });
});
afterAll(() => api.close());

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const price = (units: number, nanos = 0) => ({
  input_price: usd(units, nanos),
  output_price: usd(units, nanos),
});
const at = (model: string, rest = '') => `/catalog/models/${encodeURIComponent(model)}${rest}`;
const refusalOf = async (response: Promise<{ status: number; body: Json }>) => {
  const { status, body } = await response;
  return [status, (body.error as { code: string } | undefined)?.code];
};
/** Imports a release, as a start does. */
const start = (models: readonly ShippedModel[] = SHIPPED) =>
  api.db.transaction().execute((tx) => importCatalog(tx, models, api.now));
const withModel = (id: string, changes: Partial<ShippedModel>) =>
  SHIPPED.map((model) => (model.id === id ? { ...model, ...changes } : model));
const routed = async (id: string) => (await api.snapshot()).models.find((model) => model.id === id);
const listed = async (id: string) => {
  const { body } = await api.call('GET', '/models?page_size=500');
  return (body.data as { model: string }[]).find(({ model }) => model === id);
};
let count = 0;
async function own(fields: Json = {}): Promise<string> {
  const model = `openai/own/model-${++count}`;
  const response = await api.call('PUT', at(model), {
    body: { context_window: 1_000, price: price(1), ...fields },
  });
  expect(response.status, JSON.stringify(response.body)).toBe(201);
  return model;
}

describe('an entry of an operator', () => {
  it('is created by one PUT, and not changed by a second one', async () => {
    const body = {
      context_window: 32_000,
      max_output_tokens: 4_096,
      capabilities: ['tools', 'tools', 'vision'],
      benchmark_scores: { mmlu: 80, mt_bench: 9 },
      deprecated_at: '2027-01-01T00:00:00Z',
      upstream_name: 'ft:gpt-4o:acme',
      price: price(0, 500),
    };
    const created = await api.call('PUT', '/catalog/models/openai/acme/tuned', { body });
    expect(created.status).toBe(201);
    expect(created.body).toEqual({
      model: 'openai/acme/tuned',
      provider: 'openai',
      other_names: [],
      own: false,
      upstream_name: 'ft:gpt-4o:acme',
      origin: 'operator',
      overridden: [],
      disabled: false,
      context_window: 32_000,
      max_output_tokens: 4_096,
      capabilities: ['tools', 'vision'],
      benchmark_scores: { mmlu: 80, mt_bench: 9, avg_score: 85 },
      deprecated_at: '2027-01-01T00:00:00.000Z',
      price: {
        version: 1,
        origin: 'operator',
        price: {
          input_price: usd(0, 500),
          output_price: usd(0, 500),
          cache_read_price: usd(0, 500),
          cache_write_price: usd(0, 500),
          cache_write_1h_price: usd(0, 500),
          input_audio_price: null,
          input_image_price: usd(0, 500),
          cache_read_audio_price: null,
          output_audio_price: null,
          output_image_price: null,
          tiers: [],
          variants: [],
          tool_prices: {},
        },
        created_at: api.now.toISOString(),
      },
      priced_at: '2026-11-20T10:00:00.000Z',
      updated_at: api.now.toISOString(),
    });
    const again = await api.call('PUT', at('openai/acme/tuned'), { body });
    expect(again).toMatchObject({ status: 200, body: created.body });
    expect(await listed('openai/acme/tuned')).toMatchObject({
      context_window: 32_000,
      input_price: usd(0, 500),
    });
    expect(await routed('openai/acme/tuned')).toMatchObject({
      upstreamName: 'ft:gpt-4o:acme',
      price: { version: 1 },
    });
    const actions = await api.db
      .selectFrom('audit_log')
      .select('action')
      .where('resource_id', '=', 'openai/acme/tuned')
      .execute();
    expect(actions).toEqual([{ action: 'model.created' }]);

    const replaced = await api.call('PUT', at('openai/acme/tuned'), { body: { context_window: 5 } });
    expect(replaced.body).toMatchObject({
      context_window: 5,
      capabilities: [],
      upstream_name: 'acme/tuned',
      price: { version: 1 },
    });
  });

  it.each([
    ['openai/x', {}, 400, 'invalid_request'],
    ['openai/x', { context_window: 0 }, 400, 'invalid_request'],
    ['openai/x', { context_window: '5' }, 400, 'invalid_request'],
    ['openai/x', { context_window: 5, unknown: 1 }, 400, 'invalid_request'],
    ['openai/x', { context_window: 5, benchmark_scores: { mmlu: 101 } }, 400, 'invalid_request'],
    ['openai/x', { context_window: 5, deprecated_at: 'soon' }, 400, 'invalid_request'],
    ['openai/x', { context_window: 5, price: { input_price: usd(1) } }, 400, 'invalid_request'],
    [
      'openai/x',
      { context_window: 5, price: { ...price(1), input_price: usd(1_000_000) } },
      400,
      'invalid_request',
    ],
    [
      'openai/x',
      { context_window: 5, price: { ...price(1), input_price: usd(0.5) } },
      400,
      'invalid_request',
    ],
    ['no-slash', { context_window: 5 }, 404, 'model_not_found'],
    ['router/x', { context_window: 5 }, 422, 'model_invalid'],
    ['OpenAI/x', { context_window: 5 }, 404, 'model_not_found'],
    ['openai/a b', { context_window: 5 }, 422, 'model_invalid'],
    [`openai/${'x'.repeat(256)}`, { context_window: 5 }, 422, 'model_invalid'],
  ])('%s %j is rejected with %d %s', async (model, body, status, code) => {
    expect(await refusalOf(api.call('PUT', at(model), { body }))).toEqual([status, code]);
    expect((await api.call('GET', at(model))).status).toBe(404);
  });

  it('disappears on deletion, and the numbers of its price versions are not used again', async () => {
    const model = await own();
    expect((await api.call('DELETE', at(model))).body).toMatchObject({ model, price: null });
    for (const path of [at(model), at(model, '/prices')])
      expect((await api.call('GET', path)).status).toBe(404);
    expect(await refusalOf(api.call('PATCH', at(model), { body: { nonsense: 1 } }))).toEqual([
      404,
      'model_not_found',
    ]);
    expect([await listed(model), await routed(model)]).toEqual([undefined, undefined]);
    const body = { context_window: 9 };
    expect(await api.call('PUT', at(model), { body })).toMatchObject({ status: 201, body: { price: null } });
    expect(await routed(model)).toBeUndefined();
    expect((await api.call('POST', at(model, '/prices'), { body: price(1) })).body).toMatchObject({
      version: 3,
    });
    expect(await routed(model)).toMatchObject({ price: { version: 3 } });
  });

  it('is created once by concurrent requests, and keeps all concurrent changes', async () => {
    const model = `openai/own/model-${++count}`;
    const puts = await Promise.all(
      [1, 2, 3, 4].map((window) =>
        api.call('PUT', at(model), { body: { context_window: window, price: price(window) } }),
      ),
    );
    expect(puts.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201]);
    await Promise.all([
      api.call('PATCH', at(model), { body: { max_output_tokens: 7 } }),
      api.call('PATCH', at(model), { body: { capabilities: ['tools'] } }),
      ...[11, 12, 13].map((units) => api.call('POST', at(model, '/prices'), { body: price(units) })),
    ]);
    expect((await api.call('GET', at(model))).body).toMatchObject({
      max_output_tokens: 7,
      capabilities: ['tools'],
    });
    const { body } = await api.call('GET', at(model, '/prices'));
    expect((body.data as Json[]).map(({ version }) => version)).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });
});

describe('an override of a shipped model', () => {
  const MODEL = 'openai/gpt-4o';
  const shipped = SHIPPED.find(({ id }) => id === MODEL) as ShippedModel;

  it('survives every start while other fields follow the release, until it is reset', async () => {
    const before = (await api.call('GET', at(MODEL))).body;
    expect(before).toMatchObject({
      origin: 'catalog',
      overridden: [],
      context_window: shipped.contextWindow,
    });
    const changes = { context_window: 1_234, benchmark_scores: { mmlu: 50 }, max_output_tokens: null };
    const { body } = await api.call('PATCH', at(MODEL), { body: changes });
    expect(body).toMatchObject({
      ...changes,
      benchmark_scores: { mmlu: 50, avg_score: 50 },
      origin: 'catalog',
      overridden: ['context_window', 'max_output_tokens', 'benchmark_scores'],
    });
    const unchanged = await api.call('PATCH', at(MODEL), { body: {} });
    expect(unchanged.body).toEqual(body);

    const release = withModel(MODEL, {
      contextWindow: 9_999,
      capabilities: ['new_one'],
      deprecatedAt: '2026-12-01',
    });
    expect(await start(release)).toMatchObject({ changedModels: 1, newPrices: 0 });
    expect(await start(release)).toMatchObject({ changedModels: 0, newPrices: 0 });
    expect((await api.call('GET', at(MODEL))).body).toMatchObject({
      context_window: 1_234,
      capabilities: ['new_one'],
      deprecated_at: '2026-12-01T00:00:00.000Z',
    });
    const restored = await api.call('DELETE', at(MODEL));
    expect(restored.body).toMatchObject({ context_window: 9_999, overridden: [], capabilities: ['new_one'] });
    await start();
    expect((await api.call('GET', at(MODEL))).body).toEqual(before);
  });

  it('can disable the model, which cannot be deleted', async () => {
    expect(await refusalOf(api.call('DELETE', at(MODEL)))).toEqual([409, 'model_is_shipped']);
    await api.call('PATCH', at(MODEL), { body: { disabled: true } });
    await start();
    expect([await listed(MODEL), await routed(MODEL)]).toEqual([undefined, undefined]);
    const { body } = await api.call('GET', '/catalog/models?disabled=true');
    expect((body.data as Json[]).map(({ model }) => model)).toContain(MODEL);
    expect((await api.call('DELETE', at(MODEL))).body).toMatchObject({ disabled: false });
    expect(await routed(MODEL)).toBeDefined();
  });

  it('can replace the whole entry', async () => {
    const before = (await api.call('GET', at(MODEL))).body;
    await api.call('PUT', at(MODEL), { body: { context_window: 77 } });
    await start(withModel(MODEL, { contextWindow: 5 }));
    expect((await api.call('GET', at(MODEL))).body).toMatchObject({
      origin: 'operator',
      context_window: 77,
      capabilities: [],
    });
    await start();
    expect((await api.call('DELETE', at(MODEL))).body).toEqual(before);
  });

  it('stays until it is deleted when a release later ships the same model', async () => {
    const model = await own();
    const ships = [...SHIPPED, { ...shipped, id: model }];
    expect(await start(ships)).toEqual({ changedModels: 1, newPrices: 0 });
    expect((await api.call('GET', at(model))).body).toMatchObject({
      origin: 'operator',
      context_window: 1_000,
    });
    expect((await api.call('DELETE', at(model))).body).toMatchObject({
      origin: 'catalog',
      context_window: shipped.contextWindow,
    });
    const gone = await own();
    await api.call('DELETE', at(gone));
    await start([...SHIPPED, { ...shipped, id: gone }]);
    expect((await api.call('GET', at(gone))).body).toMatchObject({
      origin: 'catalog',
      price: { version: 3, origin: 'catalog' },
    });
  });
});

describe('a price', () => {
  const MODEL = 'openai/gpt-4o-mini';
  const shipped = SHIPPED.find(({ id }) => id === MODEL) as ShippedModel & { price: object };

  it('of an operator has precedence over later shipped ones until it is reset, each as its own version', async () => {
    const tiers = [
      { above_input_tokens: 100, ...price(9) },
      { above_input_tokens: 200, ...price(10), cache_read_price: usd(1) },
    ];
    const set = await api.call('POST', at(MODEL, '/prices'), {
      body: { ...price(7), cache_write_1h_price: usd(8), tiers },
    });
    expect(set).toMatchObject({ status: 201, body: { version: 2, origin: 'operator' } });
    expect(set.body.price).toMatchObject({
      cache_read_price: usd(7),
      cache_write_1h_price: usd(8),
      tiers: [{ cache_read_price: usd(9) }, { cache_read_price: usd(1) }],
    });
    const same = await api.call('POST', at(MODEL, '/prices'), {
      body: { ...price(7), cache_write_1h_price: usd(8), tiers },
    });
    expect(same).toMatchObject({ status: 200, body: set.body });

    const dearer = { ...shipped.price, input: 42n };
    expect(await start(withModel(MODEL, { price: dearer }))).toMatchObject({ newPrices: 0 });
    expect(await routed(MODEL)).toMatchObject({ price: { version: 2, rates: { input: 7_000_000_000n } } });
    const reset = await api.call('DELETE', at(MODEL, '/prices'));
    expect(reset.body).toMatchObject({ version: 3, origin: 'catalog', price: { input_price: usd(0, 42) } });
    expect(await refusalOf(api.call('DELETE', at(MODEL, '/prices')))).toEqual([409, 'price_not_overridden']);
    expect(await start()).toMatchObject({ newPrices: 1 });
    expect(await routed(MODEL)).toMatchObject({
      price: { version: 4, rates: { input: shipped.price.input } },
    });

    const pages: Json[] = [];
    let token = '';
    do {
      const { body } = await api.call('GET', at(MODEL, `/prices?page_size=2&page_token=${token}`));
      pages.push(...(body.data as Json[]));
      token = body.next_page_token as string;
    } while (token);
    expect(pages.map(({ version, origin }) => [version, origin])).toEqual([
      [4, 'catalog'],
      [3, 'catalog'],
      [2, 'operator'],
      [1, 'catalog'],
    ]);
  });

  it('that is reset on a model that never shipped leaves it without a price, which is not free', async () => {
    const model = await own();
    expect((await api.call('DELETE', at(model, '/prices'))).body).toMatchObject({ version: 2, price: null });
    expect((await api.call('GET', at(model))).body).toMatchObject({ price: null });
    expect([await listed(model), await routed(model)]).toEqual([undefined, undefined]);
    const unpriced = await api.call('GET', '/catalog/models?priced=false');
    expect((unpriced.body.data as Json[]).map((entry) => entry.model)).toContain(model);
    // A price of zero is free; a missing price is not.
    await api.call('POST', at(model, '/prices'), { body: price(0) });
    expect(await routed(model)).toMatchObject({ price: { version: 3, rates: { input: 0n, output: 0n } } });
  });

  it('that the vendor has not published is not known: the model is listed and cannot be used', async () => {
    const model = 'openai/gpt-6-cyber';
    expect((await api.call('GET', at(model))).body).toMatchObject({ origin: 'catalog', price: null });
    expect([await listed(model), await routed(model)]).toEqual([undefined, undefined]);
    await api.call('POST', at(model, '/prices'), { body: price(3) });
    expect(await routed(model)).toBeDefined();
    const reset = await api.call('DELETE', at(model, '/prices'));
    expect(reset.body).toMatchObject({ version: 2, origin: 'catalog', price: null });
    expect(await start()).toEqual({ changedModels: 0, newPrices: 0 });
  });

  it('that a release no longer knows ends', async () => {
    const model = 'openai/gpt-4.1-nano';
    expect(await start(withModel(model, { price: null }))).toMatchObject({ newPrices: 1 });
    expect(await routed(model)).toBeUndefined();
    expect(await start()).toMatchObject({ newPrices: 1 });
    expect(await routed(model)).toMatchObject({ price: { version: 3 } });
  });

  it('with a date is a separate version from that date on, unless an operator set another', async () => {
    const [dated, overridden] = ['openai/gpt-4.1', 'openai/gpt-4.1-mini'];
    const from = new Date('2027-01-01T00:00:00Z');
    const files = FILES.map((file): CatalogFileModel => {
      if (file.id !== dated && file.id !== overridden) return file;
      const [now] = file.prices;
      return { ...file, prices: now ? [now, { from, price: { ...now.price, input: 77n } }] : [] };
    });
    await api.call('POST', at(overridden, '/prices'), { body: price(7) });
    const deps = { db: api.db, now: () => api.now, logger: createLogger('test', { write: () => {} }) };
    const before = { after: new Date('2026-11-20'), until: new Date('2026-12-31T23:59:59Z') };
    await importDuePrices(deps, files, before);
    expect(await routed(dated)).toMatchObject({ price: { version: 1, rates: { input: 2_000_000_000n } } });
    // Two control planes, at once and again later.
    const due = { after: before.until, until: from };
    await Promise.all([importDuePrices(deps, files, due), importDuePrices(deps, files, due)]);
    await importDuePrices(deps, files, due);
    expect(await routed(dated)).toMatchObject({ price: { version: 2, rates: { input: 77n } } });
    expect(await routed(overridden)).toMatchObject({
      price: { version: 2, rates: { input: 7_000_000_000n } },
    });
    const { body } = await api.call('GET', at(dated, '/prices'));
    expect((body.data as Json[]).map(({ version, origin }) => [version, origin])).toEqual([
      [2, 'catalog'],
      [1, 'catalog'],
    ]);
  });
});

it('the catalog is listed in pages, by provider, name, price and whether it is disabled', async () => {
  const ids: string[] = [];
  let token = '';
  do {
    const { body } = await api.call(
      'GET',
      `/catalog/models?provider=anthropic&page_size=7&page_token=${token}`,
    );
    ids.push(...(body.data as Json[]).map(({ model }) => model as string));
    token = body.next_page_token as string;
  } while (token);
  // Also of a provider that no connector serves.
  expect(ids).toEqual(
    SHIPPED.filter(({ provider }) => provider === 'anthropic')
      .map(({ id }) => id)
      .sort(),
  );
  const { body } = await api.call('GET', '/catalog/models?name_contains=GPT-4O&priced=true&disabled=false');
  const found = (body.data as Json[]).map(({ model }) => model as string);
  expect(found.length).toBeGreaterThan(1);
  expect(found.every((model) => model.includes('gpt-4o'))).toBe(true);
  expect(await refusalOf(api.call('GET', '/catalog/models?priced=maybe'))).toEqual([400, 'invalid_request']);
});
