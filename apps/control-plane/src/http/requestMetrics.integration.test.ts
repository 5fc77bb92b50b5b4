import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

it('counts requests by route template, never by the path of the client', async () => {
  const { id } = await api.issue();
  await api.call('GET', `/keys/${id}`);
  await api.call('GET', '/keys/key_made_up');
  await api.call('GET', `/keys/${id}`, { key: null });
  await api.get('/made/up');
  await api.get('/healthz');
  const text = await api.metrics.text();
  const counted = (method: string, route: string, status: number) =>
    `weighbridge_management_requests_total{method="${method}",route="${route}",status="${status}"} 1`;
  expect(text).toContain(counted('POST', '/api/v1/keys', 201));
  expect(text).toContain(counted('GET', '/api/v1/keys/:key_id', 200));
  expect(text).toContain(counted('GET', '/api/v1/keys/:key_id', 404));
  expect(text).toContain(counted('GET', '/api/v1/keys/:key_id', 401));
  expect(text).toContain(counted('GET', 'none', 404));
  expect(text).toContain(
    'weighbridge_management_request_duration_seconds_count{method="GET",route="/api/v1/keys/:key_id"} 3',
  );
  expect(text).not.toMatch(/made|healthz/);
});
