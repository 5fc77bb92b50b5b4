import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
let profileId = '';
let teamProfile = '';
let team = '';
let narrow = '';

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });

async function made(path: string, body: unknown): Promise<string> {
  const response = await api.call('POST', path, { body });
  expect(response.status, JSON.stringify(response.body)).toBe(201);
  return response.body.id as string;
}

const explain = (name: string, body: object = {}) =>
  api.call('POST', '/explain', { body: { model: name, ...body } });

async function explained(name: string, body: object = {}) {
  const response = await explain(name, body);
  expect(response.status, JSON.stringify(response.body)).toBe(200);
  return response.body;
}

beforeAll(async () => {
  api = await startTestApi();
  for (const [provider, dialect] of [
    ['openai', 'openai'],
    ['anthropic', 'anthropic'],
  ]) {
    await made('/connectors', { name: provider, provider, dialect, base_url: 'https://vendor.test/v1' });
  }
  await made('/connectors', {
    name: 'acme',
    provider: 'acme',
    dialect: 'openai',
    base_url: 'https://vendor.test/v1',
  });
  const price = { input_price: usd(1), output_price: usd(2) };
  for (const name of ['large-one', 'large-two', 'small-one']) {
    await api.call('PUT', `/catalog/models/acme%2F${name}`, { body: { context_window: 8_000, price } });
  }
  const profile = (name: string) =>
    made('/profiles', { name, strategy: 'ordered', targets: [{ model: 'acme/large-one' }] });
  profileId = await profile('cheap-chat');
  teamProfile = await profile('team-chat');
  team = await made('/policies', { name: 'team', profile_id: teamProfile });
  narrow = await made('/policies', { name: 'narrow', allowed_models: ['acme/small-*'] });
  await made('/aliases', { name: 'fast', target: 'acme/small-one' });
  await made('/aliases', { name: 'fast', target: 'router/cheap-chat', policy_id: team });
  await made('/aliases', { name: 'claude-*', target: 'acme/large-two' });
  await made('/aliases', { name: 'lost', target: 'deepseek/deepseek-chat' });
});
afterAll(() => api.close());

describe('an explanation takes every name that a request may have', () => {
  it.each([
    ['acme/large-one', 'acme/large-one', 'id'],
    ['openai/gpt-4o', 'openai/gpt-4o', 'id'],
    ['router/cheap-chat', 'router/cheap-chat', 'id'],
    ['fast', 'acme/small-one', 'alias'],
    ['claude-of-tomorrow', 'acme/large-two', 'alias'],
    ['gpt-4o', 'openai/gpt-4o', 'name'],
    ['large-one', 'acme/large-one', 'name'],
    ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic/claude-sonnet-4-5-20250929', 'other_name'],
  ])('%s stands for %s, by the rule %s', async (name, model, by) => {
    const explanation = await explained(name, model.startsWith('anthropic/') ? { route: 'messages' } : {});
    expect(explanation).toMatchObject({
      model,
      resolved_name: { name, by },
      refusal: null,
      chosen: { model: model === 'router/cheap-chat' ? 'acme/large-one' : model },
    });
    expect(explanation.profile_id).toBe(model.startsWith('router/') ? profileId : null);
  });

  it('as the explanation of a profile does', async () => {
    const byId = await api.call('POST', `/profiles/${profileId}/explain`, { body: {} });
    expect(byId.body).toMatchObject({
      profile_id: profileId,
      model: 'router/cheap-chat',
      resolved_name: { name: 'router/cheap-chat', by: 'id', alias_id: null, sent_name: null },
    });
  });

  it('with the aliases and the default profile of the policies', async () => {
    expect(await explained('fast', { policy_id: team })).toMatchObject({
      model: 'router/cheap-chat',
      profile_id: profileId,
      resolved_name: { by: 'alias', alias_id: expect.stringMatching(/^als_/) },
    });
    expect(await explained('router/default', { policy_id: team })).toMatchObject({
      profile_id: teamProfile,
      model: 'router/default',
    });
    expect(await outcome(explain('router/default'))).toEqual([404, 'model_not_found']);
  });

  it('and says how a request for it is refused', async () => {
    expect(await explained('large-one', { policy_id: narrow })).toMatchObject({
      model: 'acme/large-one',
      refusal: { status: 403, code: 'model_not_allowed' },
    });
    expect(await explained('large-one', { route: 'embed_content' })).toMatchObject({
      refusal: { status: 400, code: 'route_not_supported' },
    });
    expect(await explained('lost')).toMatchObject({
      model: 'deepseek/deepseek-chat',
      refusal: { status: 404, code: 'model_not_found' },
    });
  });
});

describe('what stands for nothing is a 404', () => {
  const message = async (name: string, body: object = {}) => {
    const response = await explain(name, body);
    expect([response.status, response.body.error]).toMatchObject([404, { code: 'model_not_found' }]);
    return (response.body.error as { message: string }).message;
  };

  it('with the nearest names', async () => {
    expect(await message('large-on')).toContain('Did you mean acme/large-one or acme/large-two?');
    expect(await message('acme/smal-one')).toContain('Did you mean acme/small-one?');
    expect(await message('router/cheap-chatt')).toContain('Did you mean router/cheap-chat?');
    expect(await message('nothing like it at all')).not.toContain('Did you mean');
  });

  it('of what the policies allow', async () => {
    expect(await message('large-on', { policy_id: narrow })).not.toContain('Did you mean');
  });

  it.each(['A'.repeat(250), '\u202e', ' ', 'mock', 'router/', '💥'])('for %j', async (name) => {
    await message(name);
  });

  it.each([{ model: '' }, { model: 7 }, { model: 'a\u0000b' }, {}, { model: 'A'.repeat(1_001) }])(
    'but %j is no name',
    async (body) => {
      expect(await outcome(api.call('POST', '/explain', { body }))).toEqual([400, 'invalid_request']);
    },
  );
});
