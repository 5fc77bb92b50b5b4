import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
let policyId: string;

beforeAll(async () => {
  api = await startTestApi();
  const price = { currency_code: 'USD', units: 1, nanos: 0 };
  for (const id of ['acme/small', 'acme/large']) {
    const body = { context_window: 8_000, price: { input_price: price, output_price: price } };
    await api.call('PUT', `/catalog/models/${id}`, { body });
  }
  const connector = { name: 'acme', provider: 'acme', dialect: 'openai', base_url: 'https://vendor.test/v1' };
  await api.call('POST', '/connectors', { body: connector });
  const limits = [
    { name: 'each user', counter_scope: 'user', limit_micro_usd: 500 },
    { name: 'large', models: ['*/large'], counter_scope: 'policy', limit_micro_usd: 700 },
    { name: 'gold', when: { 'labels.tier': 'gold' }, limit_micro_usd: 900 },
    { name: 'project', counter_scope: 'project', unknown: 'refuse', limit_micro_usd: 5 },
    { name: 'off', enforcement: 'off', limit_micro_usd: 5 },
  ];
  const body = { name: 'limited', limit_micro_usd: 1_000, counter_scope: 'key', limits };
  policyId = String((await api.call('POST', '/policies', { body })).body.id);
});
afterAll(() => api.close());

async function explain(body: Json) {
  const response = await api.call('POST', '/explain', { body });
  expect(response.status, JSON.stringify(response.body)).toBe(200);
  return response.body as { budgets: Json[]; models: { limits: Json[] }[] };
}

const effects = ({ models }: { models: { limits: Json[] }[] }) =>
  models[0]?.limits.map(({ name, effect, value, headroom_micro_usd }) => [
    name,
    effect,
    value,
    headroom_micro_usd,
  ]);

it('says which limits count a request of a key with its attribution, and what is left of each', async () => {
  const key = await api.issue({ policy_id: policyId, attribution: { labels: { tier: 'gold' } } });
  const attribution = { user: 'añn', project: 'p1', labels: { tier: 'silver' } };
  const explained = await explain({ model: 'acme/large', key_id: key.id, attribution });
  expect(explained.budgets).toEqual([
    {
      policy_id: policyId,
      counter_scope: 'key',
      enforcement: 'enforce',
      limit_micro_usd: 1_000,
      spent_micro_usd: 0,
      headroom_micro_usd: 1_000,
      reset: expect.any(String),
    },
  ]);
  // What the key locks holds, as for a request.
  expect(effects(explained)).toEqual([
    ['each user', 'counts', 'añn', 500],
    ['large', 'counts', null, 700],
    ['gold', 'counts', null, 900],
    ['project', 'counts', 'p1', 5],
  ]);
});

it('says what a request without attribution meets, on another model', async () => {
  const key = await api.issue({ policy_id: policyId });
  expect(effects(await explain({ model: 'acme/small', key_id: key.id }))).toEqual([
    ['each user', 'counts', null, 500],
    ['gold', 'none', null, null],
    ['project', 'refuses', null, null],
  ]);
});

it('knows of a policy alone what no key decides', async () => {
  const labels = { tier: 'gold' };
  const explained = await explain({ model: 'acme/small', policy_id: policyId, attribution: { labels } });
  expect(explained.budgets).toMatchObject([{ limit_micro_usd: 1_000, headroom_micro_usd: null }]);
  expect(effects(explained)).toEqual([
    ['each user', 'counts', null, 500],
    ['gold', 'counts', null, null],
    ['project', 'refuses', null, null],
  ]);
  expect(await explain({ model: 'acme/small' })).toMatchObject({ budgets: [], models: [{ limits: [] }] });
});

it('names the rates of limits, beside their amounts', async () => {
  const limits = [
    { name: 'pace', counter_scope: 'user', requests_per_minute: 20, max_parallel: 2, limit_requests: 9 },
    { name: 'strict', counter_scope: 'project', unknown: 'refuse', tokens_per_minute: 900 },
  ];
  const { id } = (await api.call('POST', '/policies', { body: { name: 'paced', limits } })).body;
  const request = { model: 'acme/small', policy_id: id, attribution: { user: 'ann' } };
  const [model] = (await explain(request as Json)).models;
  const none = { limit_micro_usd: null, limit_tokens: null, reset: null };
  const noRates = { requests_per_minute: null, tokens_per_minute: null, max_parallel: null };
  expect(model?.limits).toMatchObject([
    { name: 'pace', value: 'ann', limit_requests: 9, headroom_requests: 9, ...noRates },
    { ...none, name: 'pace', effect: 'counts', value: 'ann', limit_requests: null, requests_per_minute: 20 },
    { ...none, name: 'strict', effect: 'refuses', limit_requests: null, tokens_per_minute: 900 },
  ]);
});
