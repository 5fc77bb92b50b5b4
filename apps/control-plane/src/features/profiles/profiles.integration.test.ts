import { afterAll, beforeAll, expect, it } from 'vitest';
import { outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const cheap = { name: 'cheap', strategy: 'cheapest', targets: [{ model: 'mock/echo' }] };

it('a profile is made, changed in what is named, listed by name, and gone when deleted', async () => {
  const { status, body } = await api.call('POST', '/profiles', { body: cheap });
  expect([status, body]).toMatchObject([201, { ...cheap, constraints: {} }]);
  const path = `/profiles/${body.id}`;
  expect((await api.call('PATCH', path, { body: {} })).body).toEqual(body);
  const changed = await api.call('PATCH', path, {
    body: { strategy: 'weighted', targets: [{ model: 'a/b', weight: 3 }] },
  });
  expect(changed.body).toMatchObject({
    name: 'cheap',
    strategy: 'weighted',
    targets: [{ model: 'a/b', weight: 3 }],
  });
  await api.call('POST', '/profiles', { body: { ...cheap, name: 'another' } });
  const { body: list } = await api.call('GET', '/profiles');
  expect((list.data as { name: string }[]).map(({ name }) => name)).toEqual(['another', 'cheap']);
  expect((await api.call('DELETE', path)).status).toBe(200);
  expect(await outcome(api.call('GET', path))).toEqual([404, 'profile_not_found']);
});

it('a profile that a policy names is not deleted', async () => {
  const { body } = await api.call('POST', '/profiles', { body: { ...cheap, name: 'used' } });
  await api.call('POST', '/policies', { body: { name: 'p', profile_id: body.id } });
  expect(await outcome(api.call('DELETE', `/profiles/${body.id}`))).toEqual([409, 'profile_in_use']);
});

it.each([
  [{ name: 'Upper Case' }, 422, 'name_invalid'],
  [{ name: 'used' }, 409, 'profile_name_taken'],
  [{ targets: [] }, 400, 'invalid_request'],
  [{ targets: [{ model: 'noslash' }] }, 422, 'target_invalid'],
  [{ targets: [{ model: 'router/other' }] }, 422, 'target_invalid'],
  [{ strategy: 'random' }, 400, 'invalid_request'],
  [{ constraints: { min_score: 101 } }, 400, 'invalid_request'],
])('a profile with %j is refused: %d %s', async (fields, status, code) => {
  expect(
    await outcome(api.call('POST', '/profiles', { body: { ...cheap, name: 'new', ...fields } })),
  ).toEqual([status, code]);
});
