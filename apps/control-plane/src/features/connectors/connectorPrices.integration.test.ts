import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const price = (units: number) => ({ input_price: usd(units), output_price: usd(2 * units) });
let count = 0;
async function createConnector(fields: Json = {}): Promise<string> {
  const body = {
    name: `c${++count}`,
    provider: 'mock',
    dialect: 'openai',
    base_url: 'https://mock.test/v1',
    ...fields,
  };
  return (await api.call('POST', '/connectors', { body })).body.id as string;
}
const sentConnector = async (id: string) =>
  (await api.snapshot()).connectors.find((connector) => connector.id === id);

describe('a negotiated price', () => {
  it('applies at its connector, version by version, until it ends', async () => {
    const id = await createConnector();
    const path = `/connectors/${id}/prices/mock%2Fecho`;
    const tiers = [{ above_input_tokens: 1_000, ...price(9) }];
    const first = await api.call('PUT', path, { body: { ...price(3), cache_read_price: usd(0, 5), tiers } });
    expect(first).toMatchObject({
      status: 200,
      body: { model: 'mock/echo', version: 1, created_at: api.now.toISOString() },
    });
    expect(first.body.price).toMatchObject({
      input_price: usd(3),
      cache_read_price: usd(0, 5),
      cache_write_price: usd(3),
      tiers: [{ above_input_tokens: 1_000, cache_read_price: usd(9) }],
    });
    expect((await sentConnector(id))?.prices['mock/echo']).toMatchObject({
      version: 1,
      rates: { input: 3_000_000_000n, output: 6_000_000_000n, cacheRead: 5n, cacheWrite: 3_000_000_000n },
      tiers: [{ aboveInputTokens: 1_000, rates: { input: 9_000_000_000n } }],
    });
    // The same again is the same version.
    expect(
      (await api.call('PUT', path, { body: { ...price(3), cache_read_price: usd(0, 5), tiers } })).body,
    ).toEqual(first.body);
    expect(
      (await api.call('PUT', `/connectors/${id}/prices/mock/echo`, { body: price(4) })).body,
    ).toMatchObject({ version: 2 });
    expect((await api.call('DELETE', path)).body).toMatchObject({ version: 3, price: null });
    expect((await sentConnector(id))?.prices).toEqual({});
    const again = await api.call('DELETE', path);
    expect([again.status, (again.body.error as Json).code]).toEqual([404, 'price_not_found']);
    expect((await api.call('PUT', path, { body: price(4) })).body).toMatchObject({ version: 4 });

    const list = async (query = '') =>
      (await api.call('GET', `/connectors/${id}/prices${query}`)).body as {
        data: Json[];
        next_page_token: string;
      };
    expect((await list()).data.map(({ version }) => version)).toEqual([4]);
    const page = await list('?all_versions=true&model=mock%2Fecho&page_size=3');
    const rest = await list(
      `?all_versions=true&model=mock%2Fecho&page_size=3&page_token=${page.next_page_token}`,
    );
    expect([...page.data, ...rest.data].map(({ version }) => version)).toEqual([4, 3, 2, 1]);
    expect(rest.next_page_token).toBe('');
    const actions = await api.db
      .selectFrom('audit_log')
      .select('action')
      .where('resource_id', '=', id)
      .orderBy('id')
      .execute();
    expect(actions.map(({ action }) => action)).toEqual([
      'connector.created',
      'connector_price.set',
      'connector_price.set',
      'connector_price.ended',
      'connector_price.set',
    ]);
  });

  it('must be for a model that the connector can serve', async () => {
    const id = await createConnector();
    const put = async (path: string, body: object = price(1)) => {
      const response = await api.call('PUT', path, { body });
      return [response.status, (response.body.error as Json | undefined)?.code];
    };
    expect(await put(`/connectors/${id}/prices/mock%2Fnope`)).toEqual([404, 'model_not_found']);
    expect(await put('/connectors/con_nope/prices/mock%2Fecho')).toEqual([404, 'connector_not_found']);
    expect(await put(`/connectors/${id}/prices/openai%2Fgpt-4o`)).toEqual([422, 'model_of_other_provider']);
    expect(await put(`/connectors/${id}/prices/mock%2Fecho`, { input_price: usd(1) })).toEqual([
      400,
      'invalid_request',
    ]);
    expect(await put(`/connectors/${id}/prices/mock%2Fecho`, { ...price(1), input_price: usd(-1) })).toEqual([
      400,
      'invalid_request',
    ]);
    expect(
      await put(`/connectors/${id}/prices/mock%2Fecho`, { ...price(1), input_price: usd(0, 1e9) }),
    ).toEqual([400, 'invalid_request']);
    expect(
      await put(`/connectors/${id}/prices/mock%2Fecho`, {
        ...price(1),
        input_price: { ...usd(1), currency_code: 'EUR' },
      }),
    ).toEqual([400, 'invalid_request']);
    const tiers = [
      { above_input_tokens: 5, ...price(1) },
      { above_input_tokens: 5, ...price(2) },
    ];
    expect(await put(`/connectors/${id}/prices/mock%2Fecho`, { ...price(1), tiers })).toEqual([
      422,
      'tiers_invalid',
    ]);
  });

  it('gets one version for each of several concurrent changes', async () => {
    const id = await createConnector();
    const path = `/connectors/${id}/prices/mock%2Fecho`;
    const responses = await Promise.all(
      [1, 2, 3, 4, 5].map((units) => api.call('PUT', path, { body: price(units) })),
    );
    expect(responses.map(({ body }) => body.version).sort()).toEqual([1, 2, 3, 4, 5]);
  });
});

describe('the connectors that proxies receive', () => {
  it('have the models that they serve, and their upstream names', async () => {
    const fields = {
      weight: 3,
      max_parallel: 8,
      models: ['mock/e*'],
      upstream_names: { 'mock/echo': 'deployment-7' },
    };
    const id = await createConnector(fields);
    expect(await sentConnector(id)).toMatchObject({
      models: ['mock/e*'],
      upstreamNames: { 'mock/echo': 'deployment-7' },
      weight: 3,
      maxParallel: 8,
      allowPrivateAddress: false,
    });
  });

  it('do not include a model that no connector serves, nor does the list of models', async () => {
    const served = async () => {
      const listed = (await api.call('GET', '/models?page_size=500')).body.data as { model: string }[];
      const routed = (await api.snapshot()).models.map(({ id }) => id);
      expect(listed.map(({ model }) => model)).toEqual(routed);
      return routed.filter((id) => id.startsWith('groq/'));
    };
    expect(await served()).toEqual([]);
    const base_url = 'https://groq.test/v1';
    const body = { name: 'one groq', provider: 'groq', base_url, models: ['groq/llama-3.1*', 'groq/qwen/*'] };
    const { id } = (await api.call('POST', '/connectors', { body })).body;
    const some = await served();
    expect(some.length).toBeGreaterThan(0);
    expect(some.every((model) => /^groq\/(llama-3\.1|qwen\/)/.test(model))).toBe(true);
    await api.call('POST', '/connectors', { body: { name: 'all groq', provider: 'groq', base_url } });
    expect((await served()).length).toBeGreaterThan(some.length);
    await api.call('PATCH', `/connectors/${id}`, { body: { enabled: false } });
    expect((await served()).length).toBeGreaterThan(some.length);
  });
});
