import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
const connectors: Record<string, string> = {};

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const price = (units: number) => ({ input_price: usd(units), output_price: usd(units) });

async function made(path: string, body: unknown): Promise<string> {
  const response = await api.call('POST', path, { body });
  expect(response.status, JSON.stringify(response.body)).toBe(201);
  return response.body.id as string;
}

async function model(id: string, units: number | undefined, fields: Json = {}): Promise<void> {
  const body = { context_window: 8_000, ...(units !== undefined && { price: price(units) }), ...fields };
  expect((await api.call('PUT', `/catalog/models/${id}`, { body })).status).toBeLessThan(300);
}

async function connector(name: string, fields: Json = {}): Promise<void> {
  connectors[name] = await made('/connectors', {
    name,
    provider: 'acme',
    dialect: 'openai',
    base_url: 'https://vendor.test/v1',
    ...fields,
  });
}

const profile = (name: string, fields: Json) => made('/profiles', { name, strategy: 'ordered', ...fields });
const targets = (...models: string[]) => models.map((id) => ({ model: id }));

async function explain(id: string, body: Json = {}) {
  const response = await api.call('POST', `/profiles/${id}/explain`, { body });
  expect(response.status, JSON.stringify(response.body)).toBe(200);
  return response.body as Json & {
    models: { model: string; why: string; connectors: Json[] }[];
    excluded: { model: string; connector_id: string | null; stage: string; why: string }[];
    not_known: string[];
  };
}

beforeAll(async () => {
  api = await startTestApi();
  await connector('first', { priority: 1, weight: 3 });
  await connector('second', { priority: 1, weight: 5 });
  await connector('spare', { priority: 7, models: ['acme/small', 'acme/large'] });
  await connector('off', { enabled: false });
  await connector('keyless', { credential_ref: 'env:NOT_THERE' });
  await connector('claude', { provider: 'claude', dialect: 'anthropic' });
  await model('acme/small', 1, { benchmark_scores: { mmlu: 60 }, capabilities: ['tools'] });
  await model('acme/large', 5, { benchmark_scores: { mmlu: 90 }, context_window: 200_000 });
  await model('acme/unpriced', undefined);
  await model('acme/disabled', 1, { disabled: true });
  await model('claude/opus', 9);
  await api.call('PUT', `/connectors/${connectors.spare}/prices/acme/large`, { body: price(0) });
});
afterAll(() => api.close());

describe('the models of an explanation', () => {
  it('are in order, with their connectors by priority and weight, and the prices there', async () => {
    const id = await profile('in-order', { targets: targets('acme/small', 'acme/large') });
    const explanation = await explain(id);
    expect(explanation).toMatchObject({
      profile_id: id,
      model: 'router/in-order',
      route: 'chat_completions',
      policies: [],
      chosen: { model: 'acme/small', connector_id: connectors.second },
      refusal: null,
    });
    expect(explanation.models).toMatchObject([
      { model: 'acme/small', why: "number 1 in the profile's order" },
      { model: 'acme/large' },
    ]);
    expect(explanation.models[1]?.connectors).toEqual([
      {
        ...at('second', 1, 5),
        input_price: usd(5),
        output_price: usd(5),
        price_source: 'catalog',
        translated_to: null,
      },
      {
        ...at('first', 1, 3),
        input_price: usd(5),
        output_price: usd(5),
        price_source: 'catalog',
        translated_to: null,
      },
      {
        ...at('spare', 7, 1),
        input_price: usd(0),
        output_price: usd(0),
        price_source: 'connector',
        translated_to: null,
      },
    ]);
    expect(explanation.excluded).toContainEqual({
      model: 'acme/small',
      connector_id: connectors.off,
      stage: 'unusable',
      why: 'It is disabled.',
    });
    expect(explanation.excluded).toContainEqual(
      expect.objectContaining({ model: 'acme/large', connector_id: connectors.keyless, stage: 'unusable' }),
    );
    expect(explanation.not_known.join(' ')).toMatch(/circuit breakers.*session.*key_id/);
  });

  it('begin with the cheapest one, by negotiated price', async () => {
    const id = await profile('cheapest', {
      strategy: 'cheapest',
      targets: targets('acme/small', 'acme/large'),
    });
    expect(await explain(id)).toMatchObject({
      chosen: { model: 'acme/large', connector_id: connectors.spare },
      models: [
        { model: 'acme/large', why: 'a million tokens cost 0 USD of input and 0 USD of output' },
        { model: 'acme/small' },
      ],
    });
  });

  it('are those too that the request is translated for', async () => {
    const id = await profile('translated', { targets: targets('claude/opus', 'acme/small') });
    const asked = async (route: string) => {
      const explanation = await explain(id, { route });
      expect(explanation.not_known.join(' ')).toContain('not_translatable');
      return explanation.models.map(({ connectors: [first] }) => first?.translated_to);
    };
    expect(await asked('chat_completions')).toEqual(['messages', null]);
    expect(await asked('messages')).toEqual([null, 'chat_completions']);
    expect(await asked('generate_content')).toEqual(['messages', 'chat_completions']);
  });

  it('never include a connector whose price is above the maximum', async () => {
    const id = await profile('ceiling', {
      targets: targets('acme/large'),
      constraints: { max_input_price_micro_usd: 4_999_999 },
    });
    const explanation = await explain(id);
    expect(explanation.models[0]?.connectors.map((one) => one.name)).toEqual(['spare']);
    expect(explanation.excluded).toContainEqual({
      model: 'acme/large',
      connector_id: connectors.first,
      stage: 'constraints',
      why: 'a million input tokens cost 5 USD, and at most 4.999999 USD are allowed',
    });
  });
});

describe('the excluded models of an explanation', () => {
  const whys = (explanation: Awaited<ReturnType<typeof explain>>) =>
    explanation.excluded
      .filter(({ connector_id }) => connector_id === null)
      .map(({ model: id, stage, why }) => `${id}: ${stage}: ${why}`);

  it('have the stage that they reached and the reason', async () => {
    const id = await profile('left-out', {
      targets: targets(
        'acme/none',
        'acme/disabled',
        'acme/unpriced',
        'mock/echo',
        'nobody/serves',
        'claude/opus',
        'acme/small',
        'acme/large',
      ),
      constraints: { min_score: 80 },
    });
    await model('nobody/serves', 1);
    const policy = await made('/policies', { name: 'narrow', allowed_models: ['acme/*', 'claude/*'] });
    const explanation = await explain(id, { policy_id: policy, route: 'embeddings' });
    expect(whys(explanation)).toEqual([
      'acme/none: unusable: the catalog has no model with this id',
      'acme/disabled: unusable: it is disabled in the catalog',
      'acme/unpriced: unusable: it has no price',
      'mock/echo: policy: the policies of the key do not allow it',
      'nobody/serves: unusable: no enabled connector serves it',
      'claude/opus: route: none of its connectors serves the route',
      'acme/small: constraints: its score is 60, and at least 80 is required',
    ]);
    expect(explanation.models.map(({ model: one }) => one)).toEqual(['acme/large']);
  });

  it('can be all of them; then the refusal is that of a request', async () => {
    const id = await profile('all-out', { targets: targets('acme/small') });
    const { id: key, policy_id } = await api.issue({
      policy_id: await made('/policies', { name: 'mock only', allowed_models: ['mock/*'] }),
    });
    expect(await explain(id, { key_id: key })).toMatchObject({
      chosen: null,
      refusal: { status: 403, code: 'model_not_allowed' },
      policies: [policy_id],
      models: [],
    });
    expect(await explain(id, { route: 'embed_content' })).toMatchObject({
      refusal: { status: 400, code: 'route_not_supported' },
    });
    const nothing = await profile('nothing', { targets: targets('acme/none') });
    expect(await explain(nothing)).toMatchObject({ refusal: { status: 404, code: 'model_not_found' } });
  });

  it('follow the parents of a policy too', async () => {
    const id = await profile('parents', { targets: targets('acme/small', 'acme/large') });
    const parent = await made('/policies', { name: 'parent', allowed_models: ['acme/large'] });
    const child = await made('/policies', { name: 'child', parent_policy_id: parent });
    const explanation = await explain(id, { policy_id: child });
    expect([explanation.policies, explanation.models.map(({ model: one }) => one)]).toEqual([
      [child, parent],
      ['acme/large'],
    ]);
  });
});

it.each([
  [{ key_id: 'key_none' }, 422, 'key_not_found'],
  [{ policy_id: 'pol_none' }, 422, 'policy_not_found'],
  [{ policy_id: 'pol_none', key_id: 'key_none' }, 422, 'explain_ambiguous'],
  [{ route: 'images' }, 400, 'invalid_request'],
  [{ model: 'acme/small' }, 400, 'invalid_request'],
])('%j is rejected: %d %s', async (body, status, code) => {
  const id = await profile(`refused-${Math.random()}`, { targets: targets('acme/small') });
  expect(await outcome(api.call('POST', `/profiles/${id}/explain`, { body }))).toEqual([status, code]);
});

function at(name: string, priority: number, weight: number) {
  return { connector_id: connectors[name], name, priority, weight };
}
