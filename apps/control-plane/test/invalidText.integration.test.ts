import { newId, newUuid } from '@weighbridge/domain';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from './testApi.ts';

/** Text that JSON and URLs can hold but PostgreSQL can't: a client error wherever it occurs. */

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const token = (...parts: string[]) => Buffer.from(JSON.stringify(parts)).toString('base64url');
const INVALID_TEXTS = ['\u0000', 'a\ud800b'];

it.each<['POST' | 'PUT', string, (text: string) => Json]>([
  ['POST', '/keys', (text) => ({ name: text })],
  ['POST', '/keys', (text) => ({ name: 'a', policy_id: text })],
  ['POST', '/keys', (text) => ({ name: 'a', principal_id: text })],
  ['POST', '/keys', (text) => ({ name: 'a', attribution: { team: text } })],
  ['POST', '/keys', (text) => ({ name: 'a', attribution: { labels: { [text]: 'x' } } })],
  ['POST', '/keys', (text) => ({ name: 'a', attribution: { labels: { team: text } } })],
  ['POST', '/policies', (text) => ({ name: text })],
  ['POST', '/policies', (text) => ({ name: 'a', profile_id: text })],
  ['POST', '/policies', (text) => ({ name: 'a', timezone: text })],
  ['POST', '/policies', (text) => ({ name: 'a', allowed_models: [text] })],
  ['POST', '/policies', (text) => ({ name: 'a', parent_policy_id: text })],
  ['PUT', '/principals/ada', (text) => ({ policy_id: text })],
])('%s %s rejects text that cannot be stored, and changes nothing', async (method, path, body) => {
  const count = () => api.db.selectFrom('audit_log').select('id').execute();
  const before = await count();
  for (const text of INVALID_TEXTS) {
    const { status } = await api.call(method, path, { body: body(text) });
    expect(status).toBe(400);
  }
  expect(await count()).toEqual(before);
});

it.each([
  ['/keys', 'key'],
  ['/policies', 'pol'],
  ['/principals', undefined],
  ['/profiles', undefined],
  ['/aliases', undefined],
  ['/connectors', 'con'],
  ['/audit', undefined],
  ['/models', undefined],
  ['/requests', undefined],
  ['/proxies', undefined],
  ['/quarantine', undefined],
  ['/catalog/models', undefined],
] as const)('GET %s rejects page tokens that it cannot have issued', async (path, prefix) => {
  const list = path.slice(1).replace('/', '_');
  const date = '2026-11-01T00:00:00.000Z';
  for (const parts of [
    ['\u0000'],
    ['a\ud800'],
    [],
    ['x', 'y', 'z'],
    ['x', 'y'],
    ['x', newId('key')],
    [date, '\u0000'],
    [date, 'x', 'y'],
    ...(path === '/requests' ? [['-271821-04-20T00:00:00.000Z', newUuid()]] : []),
    ...(prefix
      ? [['x'], [date], [date, 'x'], [date, newId('req')], ['+275760-09-13T00:00:00.000Z', newId(prefix)]]
      : []),
  ]) {
    const response = await outcome(api.call('GET', `${path}?page_token=${token(list, ...parts)}`));
    expect([parts, ...response]).toEqual([parts, 400, 'invalid_page_token']);
  }
});

it.each([
  '/keys?name_contains=%00',
  '/keys?principal_id=%00',
  '/keys?policy_id=%00',
  '/policies?name_contains=%00',
  '/policies?parent_policy_id=%00',
  '/principals?policy_id=%00',
  '/audit?actor_principal_id=%00',
  '/audit?action=%00',
  '/principals?id_contains=%00',
  '/audit?resource_id=%00',
  '/spend?team=%00',
])('GET %s is rejected', async (path) => {
  expect((await api.call('GET', path)).status).toBe(400);
});

it.each([
  '/keys/%00',
  '/policies/%00',
  '/principals/%00',
  '/profiles/%00',
  '/aliases/%00',
  '/connectors/%00',
  '/requests/%00',
  '/quarantine/%00',
])('GET %s is not found', async (path) => {
  expect((await api.call('GET', path)).status).toBe(404);
});

it('prices are not listed from an impossible version', async () => {
  const [connector] = (await api.call('GET', '/connectors')).body.data as [{ id: string }];
  for (const version of ['x', '-1', '1.5', '99999999999', '']) {
    for (const [path, ...parts] of [
      ['/catalog/models/mock%2Fecho/prices', 'catalog_prices mock/echo', version],
      [`/connectors/${connector.id}/prices`, `connector_prices ${connector.id}`, 'mock/echo', version],
    ] as const) {
      const response = await outcome(api.call('GET', `${path}?page_token=${token(...parts)}`));
      expect([path, version, ...response]).toEqual([path, version, 400, 'invalid_page_token']);
    }
  }
});

it('a malformed id in a body is not found', async () => {
  for (const text of ['', 'x', newId('req'), 'x'.repeat(5_000)]) {
    const expectRefusal = async (method: 'POST' | 'PUT', path: string, body: Json) =>
      expect([text, ...(await outcome(api.call(method, path, { body })))]).toEqual([
        text,
        422,
        'policy_not_found',
      ]);
    await expectRefusal('POST', '/keys', { name: 'a', policy_id: text });
    await expectRefusal('POST', '/policies', { name: 'a', parent_policy_id: text });
    await expectRefusal('PUT', '/principals/ada', { policy_id: text });
    const profile = api.call('POST', '/policies', { body: { name: 'a', profile_id: text } });
    expect(await outcome(profile)).toEqual([422, 'profile_not_found']);
  }
});
