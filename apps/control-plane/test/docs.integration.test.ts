import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from './testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

describe('the OpenAPI document and the docs page', () => {
  it('are served without a key', async () => {
    const document = await api.get('/api/v1/openapi.json');
    expect(document.status).toBe(200);
    expect(JSON.parse(document.text)).toEqual(api.document);
    const page = await api.get('/docs');
    expect([page.status, page.type]).toEqual([200, 'text/html; charset=utf-8']);
    expect((await api.get('/docs/')).status).toBe(200);
  });

  it('load nothing from another server, and a Content-Security-Policy forbids it', async () => {
    const page = await api.get('/docs');
    const sources = [...page.text.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, source]) => source ?? '');
    expect(sources.length).toBeGreaterThan(3);
    for (const source of sources) {
      expect(source).toMatch(/^\.?\//);
      const asset = await api.get(new URL(source, 'http://service.test/docs').pathname);
      expect([source, asset.status]).toEqual([source, 200]);
    }
    expect(page.headers['content-security-policy']).toContain("default-src 'self'");
    // Over plain HTTP this blanks the page on every host but a loopback one.
    expect(page.headers['content-security-policy']).not.toContain('upgrade-insecure-requests');
  });

  it('are read only', async () => {
    const refused = await api.call('POST', '/openapi.json', { key: null });
    expect([refused.status, refused.headers.allow]).toEqual([405, 'GET, HEAD']);
    for (const path of ['/docs', '/docs/static/index.html', '/healthz', '/readyz']) {
      const { status, headers } = await api.get(path, { method: 'POST' });
      expect([path, status, headers.allow]).toEqual([path, 405, 'GET, HEAD']);
    }
  });
});
