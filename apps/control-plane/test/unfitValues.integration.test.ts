import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from './testApi.ts';

/** Texts that JSON and URLs can hold, and no column. Wherever they stand, they are the caller's fault and not ours. */

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const token = (...parts: string[]) => Buffer.from(JSON.stringify(parts)).toString('base64url');
const UNFIT = ['\u0000', 'a\ud800b'];

it.each<['POST' | 'PUT', string, (text: string) => Json]>([
  ['POST', '/keys', (text) => ({ name: text })],
  ['POST', '/keys', (text) => ({ name: 'a', policy_id: text })],
  ['POST', '/keys', (text) => ({ name: 'a', principal_id: text })],
  ['POST', '/keys', (text) => ({ name: 'a', attribution: { team: text } })],
  ['POST', '/keys', (text) => ({ name: 'a', attribution: { labels: { [text]: 'x' } } })],
  ['POST', '/policies', (text) => ({ name: 'a', allowed_models: [text] })],
  ['POST', '/policies', (text) => ({ name: 'a', parent_policy_id: text })],
  ['PUT', '/principals/ada', (text) => ({ policy_id: text })],
])('%s %s refuses a text that nothing can hold, and does nothing', async (method, path, body) => {
  const count = () => api.db.selectFrom('audit_log').select('id').execute();
  const before = await count();
  for (const text of UNFIT) {
    const { status } = await api.call(method, path, { body: body(text) });
    expect([400, 422]).toContain(status);
  }
  expect(await count()).toEqual(before);
});

it.each([
  '/keys',
  '/policies',
  '/principals',
  '/profiles',
  '/connectors',
  '/audit',
  '/models',
  '/requests',
  '/spend',
])('GET %s refuses page tokens that somebody made up', async (path) => {
  const list = path.slice(1);
  for (const made of [
    token(list, '\u0000'),
    token(list, 'x'),
    token(list, 'x', 'y'),
    token(list, '2026-11-01', '\u0000'),
  ]) {
    const { status, body } = await api.call('GET', `${path}?page_token=${made}`);
    // One that has the form of a token begins somewhere, if only after the end.
    if (status !== 200) expect(body).toMatchObject({ error: { code: 'invalid_page_token' } });
    expect([200, 400]).toContain(status);
  }
});

it.each([
  '/keys?name_contains=%00',
  '/keys?principal_id=%00',
  '/policies?name_contains=%00',
  '/principals?id_contains=%00',
  '/audit?resource_id=%00',
  '/spend?team=%00',
])('GET %s is refused', async (path) => {
  expect((await api.call('GET', path)).status).toBe(400);
});

it.each([
  '/keys/%00',
  '/policies/%00',
  '/principals/%00',
  '/profiles/%00',
  '/connectors/%00',
  '/requests/%00',
])('GET %s is not found', async (path) => {
  expect((await api.call('GET', path)).status).toBe(404);
});
