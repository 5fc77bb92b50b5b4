import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually, type FeedServer, startFeedServer } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { readCatalogFiles } from '../catalog/catalogFile.ts';
import { importCatalog } from '../catalog/catalogImport.service.ts';
import { shippedCatalog } from '../catalog/shippedCatalog.ts';
import { upstreamHosts } from '../connectors/upstreamHosts.ts';
import { takeDueFetch } from './catalogFeed.service.ts';
import { feedSource, fetchFeed } from './fetchFeed.ts';
import { watchFeed } from './watchFeed.service.ts';

const HOSTS = upstreamHosts('');
const DAY_MS = 24 * 3_600_000;
const SHIPPED = shippedCatalog(await readCatalogFiles(), new Date('2026-11-20T10:00:00Z'));

let server: FeedServer;
let api: TestApi;
beforeAll(async () => {
  server = await startFeedServer();
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor', CATALOG_FEED_URL: server.url });
});
afterAll(async () => {
  await api.close();
  await server.close();
});
beforeEach(() => {
  api.now = new Date(api.now.getTime() + DAY_MS);
});

const usd = (dollars: number) => ({
  currency_code: 'USD',
  units: Math.floor(dollars),
  nanos: Math.round((dollars % 1) * 1e9),
});
const at = (model: string, rest = '') => `/catalog/models/${encodeURIComponent(model)}${rest}`;
const body = async (...call: Parameters<TestApi['call']>) => {
  const response = await api.call(...call);
  expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
  return response.body;
};
const modelOf = async (id: string) => {
  const { price, ...model } = await body('GET', at(id));
  return { ...model, ...(price as { version: number; origin: string; price: Json }) } as Json & {
    version: number;
    origin: string;
    price: Json;
    priced_at: string;
  };
};
const routed = async (id: string) => (await api.snapshot()).models.find((model) => model.id === id)?.price;
const refresh = async () => await body('POST', '/catalog/feed/refresh');
const feedState = async () => await body('GET', '/catalog/feed');
const changesOf = async (model: string, state = '') => {
  const { data } = await body('GET', `/catalog/feed/changes?page_size=500${state && `&state=${state}`}`);
  return (data as (Json & { id: string; model: string })[]).filter((change) => change.model === model);
};
/** Prices by model id, in genai-prices' form. */
const genai = (prices: Record<string, unknown>) => [
  {
    id: 'openai',
    models: Object.entries(prices).map(([id, price]) => ({ id, match: { equals: id }, prices: price })),
  },
];
/** Serves one price in dollars, and reads it. */
async function feed(model: string, input_mtok: unknown, output_mtok: unknown): Promise<Json> {
  server.serve(genai({ [model]: { input_mtok, output_mtok } }));
  return await refresh();
}
/** A model of an operator, whose first price the feed stated and a person approved. */
let count = 0;
async function fedModel(input: number, output: number): Promise<string> {
  const name = `fed-${++count}`;
  await body('PUT', at(`openai/${name}`), { body: { context_window: 1_000 } });
  await feed(name, input, output);
  const [held] = await changesOf(`openai/${name}`, 'held');
  await body('POST', `/catalog/feed/changes/${held?.id}/approve`);
  return name;
}

describe('before a feed is read', () => {
  it('prices have the date of the catalog that ships', async () => {
    const { data } = (await body('GET', '/models?page_size=500')) as { data: Json[] };
    const model = data.find(({ model }) => model === 'openai/gpt-4o-mini');
    expect(model).toMatchObject({ price_origin: 'catalog', priced_at: '2026-09-23T00:00:00.000Z' });
    expect(await modelOf('openai/gpt-4o-mini')).toMatchObject({
      origin: 'catalog',
      priced_at: '2026-09-23T00:00:00.000Z',
    });
  });

  it('the state says that it waits', async () => {
    const { origin, pathname } = new URL(server.url);
    expect(await feedState()).toMatchObject({
      state: 'waiting',
      url: `${origin}${pathname}?…`,
      last_fetch_at: null,
      held_changes: 0,
    });
  });
});

describe('a feed', () => {
  it('confirms the price in force', async () => {
    const state = await feed('gpt-4o-mini', 0.15, 0.6);
    expect(state).toMatchObject({ state: 'ok', format: 'genai-prices', last_result: 'applied' });
    expect(state).toMatchObject({ confirmed: 1, applied: 0, held_changes: 0, error: null, age_seconds: 0 });
    const model = await modelOf('openai/gpt-4o-mini');
    expect(model).toMatchObject({ version: 1, origin: 'catalog', priced_at: api.now.toISOString() });
  });

  it('sets a new price for requests from then on, and tells proxies and the audit log', async () => {
    const before = await modelOf('openai/gpt-4o-mini');
    const state = await feed('gpt-4o-mini', 0.3, 1.2);
    expect(state).toMatchObject({ confirmed: 1, applied: 1 });
    const after = await modelOf('openai/gpt-4o-mini');
    expect(after).toMatchObject({ version: before.version + 1, origin: 'feed' });
    expect(after.priced_at).toBe(api.now.toISOString());
    expect(after.price).toMatchObject({ input_price: usd(0.3), output_price: usd(1.2) });
    // The feed states no price of cached input: it rises by the factor of the input price.
    expect(after.price).toMatchObject({ cache_read_price: usd(0.15) });
    expect(await routed('openai/gpt-4o-mini')).toMatchObject({ version: before.version + 1 });
    const [change] = await changesOf('openai/gpt-4o-mini');
    expect(change).toMatchObject({ state: 'applied', held_because: null });
    expect(change?.changed_fields).toEqual(expect.arrayContaining(['input_price', 'output_price']));
    const { data } = (await body('GET', '/audit')) as { data: Json[] };
    expect(data[0]).toMatchObject({
      action: 'model_price.set_by_feed',
      resource_id: 'openai/gpt-4o-mini',
      actor_principal_id: 'catalog_feed',
    });
  });

  it('is read in the other formats too', async () => {
    const name = await fedModel(1, 2);
    server.serve({ openai: { models: { [name]: { cost: { input: 1.5, output: 3 } } } } });
    expect(await refresh()).toMatchObject({ format: 'models.dev', applied: 1 });
    server.serve({
      [name]: {
        litellm_provider: 'openai',
        mode: 'chat',
        input_cost_per_token: 2e-6,
        output_cost_per_token: 4e-6,
      },
    });
    expect(await refresh()).toMatchObject({ format: 'litellm', applied: 1 });
    expect((await modelOf(`openai/${name}`)).price).toMatchObject({
      input_price: usd(2),
      output_price: usd(4),
    });
  });

  it('asks only for what changed, and reads again what did not', async () => {
    const name = await fedModel(1, 2);
    const tomorrow = new Date(api.now.getTime() + DAY_MS).toISOString().slice(0, 10);
    const now = { prices: { input_mtok: 1, output_mtok: 2 } };
    const later = { constraint: { start_date: tomorrow }, prices: { input_mtok: 3, output_mtok: 6 } };
    server.serve(genai({ [name]: [now, later] }));
    expect(await refresh()).toMatchObject({ applied: 0, confirmed: 1 });
    api.now = new Date(api.now.getTime() + DAY_MS);
    const state = await refresh();
    expect(server.requests.at(-1)).toMatchObject({ 'if-none-match': expect.any(String) });
    // The date of the price has come.
    expect(state).toMatchObject({ last_result: 'not_modified', applied: 1, age_seconds: 0 });
    expect((await modelOf(`openai/${name}`)).price).toMatchObject({ input_price: usd(3) });
  });

  it("never changes an operator's price, nor one of a model with another name at the vendor", async () => {
    const own = await fedModel(1, 2);
    await body('POST', at(`openai/${own}`, '/prices'), {
      body: { input_price: usd(1), output_price: usd(2) },
    });
    expect(await feed(own, 1.5, 3)).toMatchObject({ applied: 0, confirmed: 0, operator_prices: 1 });
    expect(await modelOf(`openai/${own}`)).toMatchObject({
      origin: 'operator',
      price: { input_price: usd(1) },
    });
    // Reset, it follows the feed again.
    await body('DELETE', at(`openai/${own}`, '/prices'));

    const renamed = await fedModel(1, 2);
    await body('PATCH', at(`openai/${renamed}`), { body: { upstream_name: 'ft:other' } });
    expect(await feed(renamed, 1.5, 3)).toMatchObject({ applied: 0, confirmed: 0 });
  });

  it('stays in force when the control plane starts again, until a release has a later price', async () => {
    const id = 'openai/gpt-4o';
    await feed('gpt-4o', 3, 12);
    const start = (pricedAt: Date) =>
      api.db.transaction().execute((tx) =>
        importCatalog(
          tx,
          SHIPPED.map((model) => (model.id === id ? { ...model, pricedAt } : model)),
          api.now,
        ),
      );
    await start(new Date('2026-09-23'));
    expect(await modelOf(id)).toMatchObject({ origin: 'feed', price: { input_price: usd(3) } });
    await start(new Date(api.now.getTime() + DAY_MS));
    expect(await modelOf(id)).toMatchObject({ origin: 'catalog', price: { input_price: usd(2.5) } });
  });

  it('can be overruled: its price is reset to the shipped one', async () => {
    await feed('gpt-4.1', 2.5, 9);
    expect(await modelOf('openai/gpt-4.1')).toMatchObject({ origin: 'feed' });
    await body('DELETE', at('openai/gpt-4.1', '/prices'));
    expect(await modelOf('openai/gpt-4.1')).toMatchObject({
      origin: 'catalog',
      price: { input_price: usd(2) },
    });
  });
});

describe('a change that needs a person', () => {
  it.each([
    ['falls to a hundredth', 0.01, 0.02, 'input_price falls by more than 90 %'],
    ['falls to zero', 0, 0, 'input_price falls by more than 90 %'],
    ['rises a thousandfold, as with another unit', 1_000, 2_000, 'input_price rises to more than 10 times'],
  ])('is held: a price that %s', async (_how, input, output, because) => {
    const name = await fedModel(1, 2);
    const other = await fedModel(1, 2);
    server.serve(
      genai({
        [name]: { input_mtok: input, output_mtok: output },
        [other]: { input_mtok: 2, output_mtok: 4 },
      }),
    );
    // The others of the same document apply.
    expect(await refresh()).toMatchObject({ state: 'ok', applied: 1, held_changes: 1 });
    const model = await modelOf(`openai/${name}`);
    expect(model.price).toMatchObject({ input_price: usd(1), output_price: usd(2) });
    const [held] = await changesOf(`openai/${name}`, 'held');
    expect(held).toMatchObject({ held_because: because, price_after: { input_price: usd(input) } });
    // Read again, it is held once.
    await refresh();
    expect(await changesOf(`openai/${name}`, 'held')).toEqual([held]);
    // Stated differently, it is another change.
    await feed(name, 1, 2);
    expect(await changesOf(`openai/${name}`, 'held')).toEqual([]);
    expect((await changesOf(`openai/${name}`))[0]).toMatchObject({ state: 'withdrawn' });
  });

  it('is one that only many small steps make', async () => {
    const name = await fedModel(1, 2);
    for (const dollars of [0.5, 0.25, 0.12]) await feed(name, dollars, dollars * 2);
    expect((await modelOf(`openai/${name}`)).price).toMatchObject({ input_price: usd(0.12) });
    expect(await feed(name, 0.06, 0.12)).toMatchObject({ applied: 0, held_changes: 1 });
    expect((await modelOf(`openai/${name}`)).price).toMatchObject({ input_price: usd(0.12) });
  });

  it('applies when a person approves it', async () => {
    const name = await fedModel(1, 2);
    await feed(name, 0.05, 0.1);
    const [held] = await changesOf(`openai/${name}`, 'held');
    const approved = await body('POST', `/catalog/feed/changes/${held?.id}/approve`);
    expect(approved).toMatchObject({ state: 'approved', decided_at: api.now.toISOString() });
    expect(await modelOf(`openai/${name}`)).toMatchObject({
      origin: 'feed',
      priced_at: api.now.toISOString(),
      price: { input_price: usd(0.05) },
    });
    expect(await outcome(api.call('POST', `/catalog/feed/changes/${held?.id}/approve`))).toEqual([
      409,
      'feed_change_not_held',
    ]);
    // From here on, the bounds count from what was approved.
    expect(await feed(name, 0.04, 0.08)).toMatchObject({ applied: 1, held_changes: 0 });
  });

  it('is not held again once it was rejected', async () => {
    const name = await fedModel(1, 2);
    await feed(name, 0.05, 0.1);
    const [held] = await changesOf(`openai/${name}`, 'held');
    expect(await body('POST', `/catalog/feed/changes/${held?.id}/reject`)).toMatchObject({
      state: 'rejected',
    });
    expect(await refresh()).toMatchObject({ held_changes: 0, applied: 0 });
    expect((await modelOf(`openai/${name}`)).price).toMatchObject({ input_price: usd(1) });
    expect(await feed(name, 0.06, 0.12)).toMatchObject({ held_changes: 1 });
  });

  it('can not be approved if the price has changed since', async () => {
    const name = await fedModel(1, 2);
    await feed(name, 0.05, 0.1);
    const [held] = await changesOf(`openai/${name}`, 'held');
    await body('POST', at(`openai/${name}`, '/prices'), {
      body: { input_price: usd(7), output_price: usd(7) },
    });
    expect(await outcome(api.call('POST', `/catalog/feed/changes/${held?.id}/approve`))).toEqual([
      409,
      'feed_change_outdated',
    ]);
    expect(await modelOf(`openai/${name}`)).toMatchObject({
      origin: 'operator',
      price: { input_price: usd(7) },
    });
  });
});

describe('a feed that fails', () => {
  const failsWith = async (why: string) => {
    const before = await api.snapshot();
    const state = await refresh();
    expect(state).toMatchObject({ state: 'failing', last_result: 'failed' });
    expect(state.error).toContain(why);
    expect(JSON.stringify(state)).not.toContain('secret-of-the-feed');
    expect((await api.snapshot()).models).toEqual(before.models);
  };

  it.each([
    ['a web page', '<html>', 'not JSON'],
    ['half a document', '[{"id":"openai","models":[', 'not JSON'],
    ['another list', '{"hello": {"world": 1}}', 'neither'],
    [
      'a million models',
      `[{"id":"openai","models":[${'{"id":"a"},'.repeat(1_000_000)}{"id":"b"}]}]`,
      'more than 50000 models',
    ],
    ['more bytes than any list has', `["${'x'.repeat(17 * 1024 * 1024)}"]`, 'larger than'],
    [
      'only negative prices',
      JSON.stringify(genai({ 'gpt-4o': { input_mtok: -1 }, 'gpt-4.1': { input_mtok: -1 } })),
      'a price is negative',
    ],
  ])('leaves the prices in force: %s', async (_what, text, why) => {
    server.serve((_request: unknown, response: { end(text: string): void }) => response.end(text));
    await failsWith(why);
  });

  it('leaves the prices in force: an error of its server', async () => {
    server.serve((_request: unknown, response: { writeHead(status: number): { end(): void } }) =>
      response.writeHead(500).end(),
    );
    await failsWith('answered with 500');
    const { failing_since } = await feedState();
    api.now = new Date(api.now.getTime() + DAY_MS);
    await failsWith('answered with 500');
    expect(await feedState()).toMatchObject({ failing_since });
    await feed('gpt-4o-mini', 0.3, 1.2);
    expect(await feedState()).toMatchObject({ state: 'ok', failing_since: null, error: null });
  });

  it('is not followed to another kind of address', async () => {
    for (const location of [
      'http://169.254.169.254/latest/meta-data',
      'http://10.0.0.1/',
      'file:///etc/passwd',
    ]) {
      server.serve(
        (_request: unknown, response: { writeHead(status: number, headers: object): { end(): void } }) =>
          response.writeHead(302, { location }).end(),
      );
      await failsWith('which is not https');
    }
    const toPrivate = (
      _request: unknown,
      response: { writeHead(status: number, headers: object): { end(): void } },
    ) => response.writeHead(302, { location: 'https://10.0.0.1/prices.json' }).end();
    server.serve(toPrivate);
    await failsWith('not public');
    server.serve(
      (_request: unknown, response: { writeHead(status: number, headers: object): { end(): void } }) =>
        response.writeHead(302, { location: '/again' }).end(),
    );
    await failsWith('redirects more than 3 times');
  });

  it('is given up after a time', async () => {
    const source = feedSource(server.url, HOSTS);
    server.serve((_request: unknown, response: { write(text: string): void }) => response.write('[1,'));
    const limits = { timeoutMs: 200, maxBytes: 1_000 };
    await expect(source && fetchFeed(source, null, limits)).rejects.toThrow('not read within 200 ms');
  });
});

describe('the setting', () => {
  it.each([
    ['feeds.example/prices.json', 'not a URL'],
    ['ftp://feeds.example/prices.json', 'https://'],
    ['http://feeds.example/prices.json', 'ALLOWED_UPSTREAM_HOSTS'],
    ['http://10.0.0.1/prices.json', 'ALLOWED_UPSTREAM_HOSTS'],
    ['https://user:password@feeds.example/', 'user or password'],
  ])('refuses %s', (url, why) => {
    expect(() => feedSource(url, HOSTS)).toThrow(why);
  });

  it('takes https, loopback and hosts that are allowed', async () => {
    expect(feedSource(undefined, HOSTS)).toBeUndefined();
    for (const url of ['https://models.dev/api.json', 'http://localhost:1/', 'http://[::1]:1/'])
      expect(feedSource(url, HOSTS)?.url.href).toBe(url);
    expect(feedSource('http://feeds.local/', upstreamHosts('feeds.local'))).toBeDefined();
    // A feed elsewhere can't be one on loopback by its address.
    const source = feedSource('https://127.0.0.1:1/', upstreamHosts(''));
    await expect(source && fetchFeed(source, null)).rejects.toThrow("can't be fetched");
  });

  it('unset, fetches nothing and says so', async () => {
    const off = await startTestApi();
    try {
      expect((await off.call('GET', '/catalog/feed')).body).toMatchObject({ state: 'off', url: null });
      expect(await outcome(off.call('POST', '/catalog/feed/refresh'))).toEqual([409, 'catalog_feed_off']);
    } finally {
      await off.close();
    }
  });
});

describe('the daily fetch', () => {
  it('is made by one of several control planes, about once a day', async () => {
    const source = feedSource(server.url, HOSTS);
    if (!source) throw new Error('no feed');
    const deps = { db: api.db, now: () => api.now, feedSource: source };
    server.serve(genai({ 'gpt-4o-mini': { input_mtok: 0.3, output_mtok: 1.2 } }));
    await refresh();
    const { next_fetch_at } = await feedState();
    const inMs = Date.parse(String(next_fetch_at)) - api.now.getTime();
    expect(inMs).toBeGreaterThanOrEqual(23 * 3_600_000);
    expect(inMs).toBeLessThanOrEqual(25 * 3_600_000);
    expect(await takeDueFetch(deps, source)).toBe(false);
    api.now = new Date(api.now.getTime() + 26 * 3_600_000);
    const taken = await Promise.all([1, 2, 3].map(() => takeDueFetch(deps, source)));
    expect(taken.filter(Boolean)).toHaveLength(1);
  });

  it('exports how old prices are', async () => {
    const metrics = createMetrics();
    const stops: (() => Promise<void> | void)[] = [];
    const source = feedSource(server.url, HOSTS);
    const logger = createLogger('test');
    logger.level = 'silent';
    const deps = { db: api.db, now: () => api.now, feedSource: source, logger, metrics };
    watchFeed(deps, { onShutdown: (_name, stop) => stops.push(stop as () => Promise<void>) });
    await eventually(async () => expect(await metrics.text()).toContain('origin="feed"'));
    for (const stop of stops) await stop();
    const text = await metrics.text();
    expect(text).toMatch(/weighbridge_price_age_seconds\{origin="catalog"\} [1-9]\d+/);
    expect(text).toMatch(/weighbridge_price_age_seconds\{origin="feed"\} \d+/);
    expect(text).toMatch(/weighbridge_catalog_feed_age_seconds \d+/);
    expect(text).toMatch(/weighbridge_catalog_feed_held_changes \d+/);
  });
});
