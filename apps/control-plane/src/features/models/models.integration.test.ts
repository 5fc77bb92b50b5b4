import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';

/** The price that the list of models shows: what a request of its caller would be charged. */

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const price = (units: number) => ({ input_price: usd(units), output_price: usd(2 * units) });
const MODEL = 'acme/large';
let made = 0;
let connectors: string[] = [];
beforeEach(async () => {
  for (const id of connectors) await api.call('DELETE', `/connectors/${id}`);
  connectors = [];
  await api.call('PUT', `/catalog/models/${MODEL}`, { body: { context_window: 1_000, price: price(10) } });
});

async function connector(fields: Json = {}, negotiated?: number): Promise<string> {
  const body = {
    name: `c${++made}`,
    provider: 'acme',
    dialect: 'openai',
    base_url: 'https://acme.test/v1',
    ...fields,
  };
  const { id } = (await api.call('POST', '/connectors', { body })).body;
  connectors.push(id as string);
  if (negotiated !== undefined) {
    await api.call('PUT', `/connectors/${id}/prices/${MODEL}`, { body: price(negotiated) });
  }
  return id as string;
}

/** The price of an input token in dollars per million; undefined if the caller can't reach the model. */
async function shown(key = api.operatorKey): Promise<number | undefined> {
  const { data } = (await api.call('GET', '/models?page_size=500', { key })).body as { data: Json[] };
  const model = data.find((one) => one.model === MODEL);
  const of = (name: string) => (model?.[name] as { units: number } | undefined)?.units;
  if (model) {
    const [input = 0] = [of('input_price')];
    expect(of('output_price')).toBe(2 * input);
    // What a price leaves out is that of the input.
    expect([of('cache_read_price'), of('cache_write_price')]).toEqual([input, input]);
  }
  return of('input_price');
}

it("is the catalog's, unless the connector that serves the model has its own", async () => {
  expect(await shown()).toBeUndefined();
  const id = await connector();
  expect(await shown()).toBe(10);
  await api.call('PUT', `/connectors/${id}/prices/${MODEL}`, { body: price(3) });
  expect(await shown()).toBe(3);
  const { key } = await api.issue({ scopes: ['models:read'], principal_id: 'ada' });
  expect(await shown(key)).toBe(3);
  await api.call('DELETE', `/connectors/${id}/prices/${MODEL}`);
  expect(await shown()).toBe(10);
});

it('is that of the first priority, whichever connector is the cheapest', async () => {
  const first = await connector({ priority: 1 }, 7);
  await connector({ priority: 5 }, 1);
  expect(await shown()).toBe(7);
  await api.call('PATCH', `/connectors/${first}`, { body: { enabled: false } });
  expect(await shown()).toBe(1);
  await api.call('PATCH', `/connectors/${first}`, { body: { enabled: true, priority: 9 } });
  expect(await shown()).toBe(1);
});

it('leaves out connectors that do not serve the model or are not usable', async () => {
  await connector({ priority: 0, models: ['acme/small'] }, 1);
  await connector({ priority: 0, credential_ref: 'env:NOT_THERE' }, 2);
  expect(await shown()).toBeUndefined();
  await connector({ priority: 5, models: ['acme/l*'] }, 6);
  expect(await shown()).toBe(6);
});

it('is that of the greatest weight within a priority, and among equals the dearest', async () => {
  await connector({ weight: 1 }, 1);
  const heavy = await connector({ weight: 9 }, 4);
  expect(await shown()).toBe(4);
  await api.call('PATCH', `/connectors/${heavy}`, { body: { weight: 1 } });
  expect(await shown()).toBe(4);
  await connector({ weight: 1 }, 2);
  expect(await shown()).toBe(4);
  await connector({ weight: 1 });
  expect(await shown()).toBe(10);
});
