import { afterAll, beforeAll, expect, it } from 'vitest';
import { outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
  const body = { name: 'cheap', strategy: 'cheapest', targets: [{ model: 'mock/echo' }] };
  await api.call('POST', '/profiles', { body });
});
afterAll(() => api.close());

const fast = { name: 'fast', target: 'router/cheap' };
const policy = async (name = 'team') =>
  (await api.call('POST', '/policies', { body: { name } })).body.id as string;

it('an alias is created, changed in the given fields, listed by name and deleted', async () => {
  const { status, body } = await api.call('POST', '/aliases', { body: fast });
  expect([status, body]).toMatchObject([
    201,
    { ...fast, id: expect.stringMatching(/^als_/), policy_id: null, usable: true, unusable_reason: null },
  ]);
  const path = `/aliases/${body.id}`;
  expect((await api.call('PATCH', path, { body: {} })).body).toEqual(body);
  const policy_id = await policy();
  const changed = await api.call('PATCH', path, { body: { name: 'fast-*', policy_id } });
  expect(changed.body).toMatchObject({ name: 'fast-*', target: 'router/cheap', policy_id });
  await api.call('POST', '/aliases', { body: { ...fast, name: 'A' } });
  const names = async (query = '') =>
    ((await api.call('GET', `/aliases${query}`)).body.data as { name: string }[]).map(({ name }) => name);
  expect(await names()).toEqual(['A', 'fast-*']);
  expect(await names('?name_contains=as')).toEqual(['fast-*']);
  expect(await names(`?policy_id=${policy_id}`)).toEqual(['fast-*']);
  const first = (await api.call('GET', '/aliases?page_size=1')).body;
  expect(await names(`?page_size=1&page_token=${first.next_page_token}`)).toEqual(['fast-*']);
  expect((await api.call('DELETE', path)).status).toBe(200);
  expect(await outcome(api.call('GET', path))).toEqual([404, 'alias_not_found']);
  const { data } = (await api.call('GET', '/audit')).body as { data: { action: string }[] };
  expect(data.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['alias.created', 'alias.updated', 'alias.deleted']),
  );
});

it.each([
  [{ name: '' }, 422, 'name_invalid'],
  [{ name: 'a b' }, 422, 'name_invalid'],
  [{ name: 'a*b' }, 422, 'name_invalid'],
  [{ name: 'a**' }, 422, 'name_invalid'],
  [{ name: '/a' }, 422, 'name_invalid'],
  [{ name: 'a/' }, 422, 'name_invalid'],
  [{ name: 'a'.repeat(201) }, 422, 'name_invalid'],
  [{ name: 'router/mine' }, 422, 'name_invalid'],
  [{ name: 'openai/gpt-4o' }, 422, 'name_invalid'],
  [{ name: 'openai/*' }, 422, 'name_invalid'],
  [{ target: 'fast' }, 422, 'target_invalid'],
  [{ target: 'gpt-4o' }, 422, 'target_invalid'],
  [{ target: 'new' }, 422, 'target_invalid'],
  [{ target: '' }, 422, 'target_invalid'],
  [{ target: 'router/' }, 422, 'target_invalid'],
  [{ target: 'router/none' }, 422, 'target_invalid'],
  [{ target: 'openai/none' }, 422, 'target_invalid'],
  [{ target: 'openai/*' }, 422, 'target_invalid'],
  [{ policy_id: 'pol_none' }, 422, 'policy_not_found'],
  [{ policy_id: '' }, 422, 'policy_not_found'],
  [{ name: 'A' }, 409, 'alias_name_taken'],
  [{ name: 5 }, 400, 'invalid_request'],
  [{ target: null }, 400, 'invalid_request'],
  [{ other: 1 }, 400, 'invalid_request'],
])('an alias with %j is refused: %d %s', async (fields, status, code) => {
  const body = { name: 'new', target: 'mock/echo', ...fields };
  expect(await outcome(api.call('POST', '/aliases', { body }))).toEqual([status, code]);
});

it('a name may shadow the catalog, contain a slash, and be taken once for each policy', async () => {
  const policy_id = await policy();
  for (const body of [
    { name: 'gpt-4o', target: 'openai/gpt-4o-mini' },
    { name: 'gpt-4o', target: 'mock/echo', policy_id },
    { name: '*', target: 'router/default', policy_id },
    { name: 'meta-llama/Llama-3', target: 'mock/echo' },
    { name: 'hf/*', target: 'mock/echo' },
    { name: 'claude-sonnet-4-5[1m]', target: 'mock/echo' },
  ]) {
    expect(await outcome(api.call('POST', '/aliases', { body }))).toEqual([201, undefined]);
  }
  const again = { name: 'gpt-4o', target: 'mock/echo', policy_id };
  expect(await outcome(api.call('POST', '/aliases', { body: again }))).toEqual([409, 'alias_name_taken']);
});

it('says at once that nothing serves its target now', async () => {
  const body = { name: 'later', target: 'openai/gpt-4o' };
  expect((await api.call('POST', '/aliases', { body })).body).toMatchObject({
    usable: false,
    unusable_reason: expect.stringContaining(
      'openai/gpt-4o has no price, is disabled, or no enabled connector',
    ),
  });
});

it('keeps its policy and its profile from being deleted, and its profile from being renamed', async () => {
  const policy_id = await policy('held');
  const profile = await api.call('POST', '/profiles', {
    body: { name: 'held', strategy: 'cheapest', targets: [{ model: 'mock/echo' }] },
  });
  const alias = await api.call('POST', '/aliases', {
    body: { name: 'holds', target: 'router/held', policy_id },
  });
  const path = `/profiles/${profile.body.id}`;
  expect(await outcome(api.call('DELETE', `/policies/${policy_id}`))).toEqual([409, 'policy_in_use']);
  expect(await outcome(api.call('DELETE', path))).toEqual([409, 'profile_in_use']);
  expect(await outcome(api.call('PATCH', path, { body: { name: 'other' } }))).toEqual([
    409,
    'profile_in_use',
  ]);
  expect((await api.call('PATCH', path, { body: { name: 'held', strategy: 'ordered' } })).status).toBe(200);
  await api.call('DELETE', `/aliases/${alias.body.id}`);
  expect((await api.call('PATCH', path, { body: { name: 'other' } })).status).toBe(200);
  expect((await api.call('DELETE', `/policies/${policy_id}`)).status).toBe(200);
});

it('reaches proxies, with other names of models and who makes them', async () => {
  const policy_id = await policy();
  const { body } = await api.call('POST', '/aliases', {
    body: { name: 'told-*', target: 'mock/echo', policy_id },
  });
  const before = await api.snapshot();
  expect(before.aliases.find(({ id }) => id === body.id)).toMatchObject({
    name: 'told-*',
    target: 'mock/echo',
    policyId: policy_id,
  });
  await api.call('PATCH', `/aliases/${body.id}`, { body: { policy_id: null } });
  const after = await api.snapshot();
  expect(after.revision).toBe(before.revision + 1n);
  expect(after.aliases.find(({ id }) => id === body.id)?.policyId).toBeUndefined();
  const connector = { provider: 'xai', name: 'x', base_url: 'https://x.test/v1', dialect: 'openai' };
  await api.call('POST', '/connectors', { body: connector });
  const grok = (await api.snapshot()).models.find(({ id }) => id === 'xai/grok-3');
  expect(grok).toMatchObject({ own: true, otherNames: expect.arrayContaining(['grok-3-latest']) });
});

it('is for operators', async () => {
  const { key } = await api.issue({});
  for (const [method, path] of [
    ['GET', '/aliases'],
    ['POST', '/aliases'],
  ] as const) {
    const call = api.call(method, path, { key, ...(method === 'POST' && { body: fast }) });
    expect(await outcome(call)).toEqual([403, 'insufficient_scope']);
  }
});
