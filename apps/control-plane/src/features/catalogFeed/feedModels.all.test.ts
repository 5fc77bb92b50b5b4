import { type FeedServer, startFeedServer } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { readCatalogFiles } from '../catalog/catalogFile.ts';
import { importCatalog } from '../catalog/catalogImport.service.ts';
import { shippedCatalog } from '../catalog/shippedCatalog.ts';
import { NEW_MODEL_LIMITS } from './newModels.ts';

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

const at = (model: string) => `/catalog/models/${encodeURIComponent(model)}`;
const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const price = { input_price: usd(1), output_price: usd(2) };
const read = async (path: string) => (await api.call('GET', path)).body;
const put = async (model: string, fields: Json = {}) => {
  const response = await api.call('PUT', at(model), { body: { context_window: 1_000, price, ...fields } });
  expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
};
const standsFor = async (model: string) =>
  (await api.call('POST', '/explain', { body: { model } })).body.model;
const routed = async (id: string) => (await api.snapshot()).models.find((model) => model.id === id);
const changesOf = async (model: string) => {
  const { data } = await read('/catalog/feed/changes?page_size=500');
  return (data as (Json & { id: string; model: string })[]).filter((change) => change.model === model);
};
async function refresh(content: unknown): Promise<Json> {
  server.serve(content);
  const response = await api.call('POST', '/catalog/feed/refresh');
  expect(response.status).toBe(200);
  return response.body;
}
/** models.dev's form: the models of one provider by name. */
const models = (byName: Record<string, Json>, provider = 'openai') => ({
  [provider]: {
    id: provider,
    models: Object.fromEntries(
      Object.entries(byName).map(([name, fields]) => [name, { limit: { context: 1_000 }, ...fields }]),
    ),
  },
});
const cost = (input: unknown, output: unknown = input, more: Json = {}) => ({
  cost: { input, output, ...more },
});

describe('a model that the feed has and the catalog lacks', () => {
  it('is added with its price, sizes and abilities, and shown as a change', async () => {
    const state = await refresh(
      models({
        'gpt-9': {
          ...cost(2, 8, { cache_read: 0.2 }),
          limit: { context: 400_000, output: 128_000 },
          tool_call: true,
          reasoning: true,
          modalities: { input: ['text', 'image'], output: ['text'] },
        },
      }),
    );
    expect(state).toMatchObject({ state: 'ok', added: 1, applied: 1, left: 0, held_changes: 0 });
    expect(await read(at('openai/gpt-9'))).toMatchObject({
      origin: 'feed',
      upstream_name: 'gpt-9',
      context_window: 400_000,
      max_output_tokens: 128_000,
      capabilities: ['tools', 'reasoning', 'image_input'],
      own: true,
      price: { origin: 'feed', price: { input_price: usd(2), output_price: usd(8) } },
    });
    expect(await changesOf('openai/gpt-9')).toMatchObject([
      { state: 'applied', adds_model: true, price_before: null, held_because: null },
    ]);
    expect(await standsFor('gpt-9')).toBe('openai/gpt-9');
    expect((await routed('openai/gpt-9'))?.price?.rates?.input).toBe(2_000_000_000n);
    const { data } = await read('/audit?page_size=50');
    const ofModel = (data as Json[]).filter(({ resource_id }) => resource_id === 'openai/gpt-9');
    expect(ofModel.map(({ action }) => action)).toEqual(
      expect.arrayContaining(['model.added_by_feed', 'model_price.set_by_feed']),
    );
  });

  it('is added from the other formats too', async () => {
    const genai = {
      id: 'gpt-9-genai',
      context_window: 5_000,
      match: {
        or: [{ equals: 'gpt-9-genai' }, { equals: 'gpt-9-genai-2026-12-01' }, { starts_with: 'gpt-9-g' }],
      },
      prices: { input_mtok: 1, output_mtok: 2 },
    };
    expect(await refresh([{ id: 'openai', models: [genai] }])).toMatchObject({ added: 1 });
    expect(await read(at('openai/gpt-9-genai'))).toMatchObject({
      context_window: 5_000,
      other_names: ['gpt-9-genai-2026-12-01'],
    });
    const litellm = (fields: Json) => ({
      litellm_provider: 'openai',
      input_cost_per_token: 1e-6,
      max_input_tokens: 7_000,
      ...fields,
    });
    const state = await refresh({
      sample_spec: {},
      'openai/gpt-9-litellm': litellm({ mode: 'chat', output_cost_per_token: 2e-6, supports_vision: true }),
      'gpt-9-embed': litellm({ mode: 'embedding' }),
      'gpt-9-images': litellm({ mode: 'image_generation' }),
      'gpt-9-ended': litellm({ mode: 'chat', output_cost_per_token: 2e-6, deprecation_date: '2026-11-01' }),
      'gpt-9-per-request': litellm({ mode: 'chat', output_cost_per_token: 2e-6, input_cost_per_request: 1 }),
      'ft:gpt-9': litellm({ mode: 'chat', output_cost_per_token: 2e-6 }),
    });
    expect(state).toMatchObject({ added: 2, applied: 2 });
    expect(await read(at('openai/gpt-9-litellm'))).toMatchObject({ capabilities: ['image_input'] });
    expect(await read(at('openai/gpt-9-embed'))).toMatchObject({
      capabilities: ['embeddings'],
      price: { price: { output_price: usd(0) } },
    });
  });

  it('is left out without a known provider, a size, a price or a name that a model can have', async () => {
    const state = await refresh({
      ...models({ 'gpt-10': cost(1) }, 'nobody'),
      ...models({ echo: cost(1) }, 'mock'),
      ...models({ router: cost(1) }, 'router'),
      openai: {
        models: {
          'no-size': cost(1),
          'no-price': { limit: { context: 10 } },
          'old-one': { limit: { context: 10 }, status: 'deprecated', ...cost(1) },
          pictures: { limit: { context: 10 }, modalities: { output: ['image'] }, ...cost(1) },
          'negative-one': { limit: { context: 10 }, ...cost(-1) },
          'absurd-one': { limit: { context: 1e300 }, ...cost(1) },
          'two words': { limit: { context: 10 }, ...cost(1) },
          'line\nbreak': { limit: { context: 10 }, ...cost(1) },
          'turned\u202earound': { limit: { context: 10 }, ...cost(1) },
          'nul\u0000': { limit: { context: 10 }, ...cost(1) },
          '': { limit: { context: 10 }, ...cost(1) },
          '/slash/': { limit: { context: 10 }, ...cost(1) },
          'star*': { limit: { context: 10 }, ...cost(1) },
          __proto__x: { limit: { context: 10 }, ...cost(1) },
          ['x'.repeat(201)]: { limit: { context: 10 }, ...cost(1) },
          'a-fine-one': { limit: { context: 10 }, ...cost(1) },
        },
      },
    });
    expect(state).toMatchObject({ state: 'ok', added: 1, refused: 0 });
    expect(await read(at('openai/a-fine-one'))).toMatchObject({ origin: 'feed' });
  });

  it.each([
    ['free', cost(0)],
    ['free of input', cost(0, 1)],
    ['free of output', cost(1, 0)],
    ['a hundredth of what its provider asks', cost(0.000_01)],
    ['above ten times what its provider asks', cost(9_999)],
    ['free where it is cached', cost(1, 1, { cache_read: 0.000_1 })],
    ['absurd by length', cost(1, 1, { context_over_200k: { input: 100, output: 1 } })],
  ])('waits for a person if its price is %s', async (why, fields) => {
    const name = `doubt-${why.replaceAll(/\W+/g, '-')}`;
    expect(await refresh(models({ [name]: fields }))).toMatchObject({ added: 1, applied: 0 });
    const [change] = await changesOf(`openai/${name}`);
    expect(change).toMatchObject({ state: 'held', adds_model: true, held_because: expect.any(String) });
    expect(await routed(`openai/${name}`)).toBeUndefined();
    await refresh(models({ [name]: fields }));
    expect(await changesOf(`openai/${name}`)).toHaveLength(1);
    await api.call('POST', `/catalog/feed/changes/${change?.id}/approve`);
    expect((await routed(`openai/${name}`))?.price).toBeDefined();
  });

  it('takes no name that stands for another model', async () => {
    await put('acme/in-house');
    await put('acme/other', { other_names: ['in-house-2'] });
    await api.call('POST', '/connectors', {
      body: { name: 'acme', provider: 'acme', dialect: 'openai', base_url: 'https://vendor.test/v1' },
    });
    const bedrock = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0';
    await refresh(
      models({ 'in-house': cost(1), 'in-house-2': cost(1), [bedrock]: cost(1), 'claude-opus-4-5': cost(1) }),
    );
    for (const name of ['in-house', 'in-house-2', bedrock]) {
      expect((await changesOf(`openai/${name}`))[0]).toMatchObject({
        state: 'held',
        held_because: expect.stringContaining('its name stands for'),
      });
    }
    expect(await standsFor('in-house')).toBe('acme/in-house');
    expect(await standsFor('in-house-2')).toBe('acme/other');
    // The maker keeps it, so that no one has to decide.
    expect(await read(at('openai/claude-opus-4-5'))).toMatchObject({ own: false, price: { origin: 'feed' } });
  });

  it('is not added again after an operator deleted or replaced it', async () => {
    const content = models({ 'gone-1': cost(1), 'mine-1': cost(1) });
    await refresh(content);
    await api.call('DELETE', at('openai/gone-1'));
    await put('openai/mine-1', { context_window: 77 });
    expect(await refresh(models({ 'gone-1': cost(1.5), 'mine-1': cost(1.5) }))).toMatchObject({
      added: 0,
      applied: 0,
    });
    expect((await api.call('GET', at('openai/gone-1'))).status).toBe(404);
    expect(await read(at('openai/mine-1'))).toMatchObject({ origin: 'operator', price: { price } });
  });

  it('belongs to the release once that has it, with what an operator changed', async () => {
    await refresh(models({ 'soon-1': cost(1) }));
    await api.call('PATCH', at('openai/soon-1'), { body: { context_window: 55 } });
    const like = SHIPPED.find(({ id }) => id === 'openai/gpt-4o');
    if (!like) throw new Error('the catalog lacks gpt-4o');
    const shipped = { ...like, id: 'openai/soon-1', upstreamName: 'soon-1', otherNames: [] };
    await api.db.transaction().execute((tx) => importCatalog(tx, [...SHIPPED, shipped], api.now));
    expect(await read(at('openai/soon-1'))).toMatchObject({
      origin: 'catalog',
      overridden: ['context_window'],
      context_window: 55,
      capabilities: like.capabilities,
    });
  });

  it('counts small steps of its price from the first one', async () => {
    for (const input of [2, 0.9, 0.4]) await refresh(models({ 'steps-1': cost(input) }));
    expect(await read(at('openai/steps-1'))).toMatchObject({ price: { version: 3 } });
    await refresh(models({ 'steps-1': cost(0.19) }));
    expect((await changesOf('openai/steps-1'))[0]).toMatchObject({ state: 'held' });
  });
});

describe('our own corrections', () => {
  it('stay against what a list says, until a person approves it', async () => {
    const ours = SHIPPED.find(
      ({ ownPrice, price: one, provider }) => ownPrice && one && provider === 'openai',
    );
    const listed = SHIPPED.find(
      ({ ownPrice, price: one, id }) => !ownPrice && one && id === 'openai/gpt-4.1',
    );
    if (!ours?.price || !listed?.price) throw new Error('the catalog lacks a price');
    const higher = ({ price: one }: typeof ours) =>
      cost(Number(one?.input) / 1e9 + 0.5, Number(one?.output) / 1e9);
    const state = await refresh(
      models({ [ours.upstreamName]: higher(ours), [listed.upstreamName]: higher(listed) }),
    );
    expect(state).toMatchObject({ applied: 1 });
    expect(await read(at(ours.id))).toMatchObject({ price: { origin: 'catalog', version: 1 } });
    expect(await read(at(listed.id))).toMatchObject({ price: { origin: 'feed', version: 2 } });
    const [change] = await changesOf(ours.id);
    expect(change).toMatchObject({ state: 'held', held_because: expect.stringContaining('the release') });
    await api.call('POST', `/catalog/feed/changes/${change?.id}/approve`);
    expect(await read(at(ours.id))).toMatchObject({ price: { origin: 'feed', version: 2 } });
  });

  it('and prices of operators are never touched', async () => {
    await put('openai/gpt-4.1-mini', {});
    expect(await refresh(models({ 'gpt-4.1-mini': cost(3) }))).toMatchObject({
      applied: 0,
      operator_prices: 1,
    });
  });
});

describe('a hostile feed', () => {
  const many = (count: number, prefix: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}-${index}`, cost(1)]));

  it('adds no more models than one document may', async () => {
    const flood = models(many(NEW_MODEL_LIMITS.perDocument + 20, 'flood'));
    expect(await refresh(flood)).toMatchObject({ added: NEW_MODEL_LIMITS.perDocument, left: 20 });
    expect(await refresh(flood)).toMatchObject({ added: 20, left: 0 });
  });

  it('adds no more than all documents may', async () => {
    for (let day = 0; day < 11; day++) await refresh(models(many(100, `day-${day}`)));
    expect(await refresh(models({ 'one-more': cost(1) }))).toMatchObject({ added: 0, left: 1 });
    const added = await api.db.selectFrom('models').select('id').where('origin', '=', 'feed').execute();
    expect(added.length).toBe(NEW_MODEL_LIMITS.inAll);
  });

  it('with too many models changes nothing', async () => {
    const before = await read(at('openai/gpt-4o-mini'));
    const state = await refresh(models({ ...many(60_000, 'x'), 'gpt-4o-mini': cost(0.2) }));
    expect(state).toMatchObject({
      state: 'failing',
      error: expect.stringContaining('more than 50000 models'),
    });
    expect(await read(at('openai/gpt-4o-mini'))).toEqual(before);
  });
});
