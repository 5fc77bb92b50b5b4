import { describe, expect, it } from 'vitest';
import { HELLO, post } from './post.ts';
import { ALICE } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor);

describe('methods and origins', () => {
  const ask = (method: string, path: string, headers: Record<string, string> = {}, { url } = proxy) =>
    fetch(url + path, { method, headers });

  it('HEAD mirrors GET, OPTIONS needs no key, and other methods are 405', async () => {
    const key = { authorization: `Bearer ${ALICE}` };
    const head = await ask('HEAD', '/v1/models', key);
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect((await ask('HEAD', '/v1/chat/completions', key)).status).toBe(405);
    for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/embeddings']) {
      const options = await ask('OPTIONS', path);
      expect([options.status, options.headers.get('allow')]).toEqual([204, 'POST']);
      expect(options.headers.has('access-control-allow-origin')).toBe(false);
    }
    expect((await ask('OPTIONS', '/v1/responses/resp_1')).headers.get('allow')).toBe('GET, HEAD, DELETE');
    const put = await ask('PUT', '/v1/responses/resp_1', key);
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, DELETE']);
    expect((await ask('DELETE', '/v1/models/mock/echo', key)).status).toBe(405);
  });

  it('pages of configured origins may read responses, relayed ones included', async () => {
    const open = await startProxyForTest({ vendorUrl: vendor.url, corsOrigins: ['https://app.example'] });
    const origin = { origin: 'https://app.example' };
    const preflight = await ask(
      'OPTIONS',
      '/v1/chat/completions',
      {
        ...origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,x-svc-user',
      },
      open,
    );
    expect(preflight.status).toBe(204);
    expect(Object.fromEntries(preflight.headers)).toMatchObject({
      'access-control-allow-origin': 'https://app.example',
      'access-control-allow-headers': 'authorization,x-svc-user',
      'access-control-allow-methods': expect.stringContaining('POST'),
    });
    for (const stream of [false, true]) {
      const answer = await post(open, '/v1/chat/completions', { ...HELLO, stream }, origin);
      await answer.text();
      expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example');
      expect(answer.headers.get('access-control-expose-headers')).toContain('x-request-id');
    }
    const refused = await ask('GET', '/v1/models', origin, open);
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([
      401,
      'https://app.example',
    ]);
    const stranger = await post(open, '/v1/chat/completions', HELLO, { origin: 'https://evil.example' });
    expect(stranger.headers.has('access-control-allow-origin')).toBe(false);
  });

  it("pages of other origins may not: the vendor's CORS headers are not passed on", async () => {
    const vendorUrl = await startVendor((_request, response) => {
      response.setHeader('access-control-allow-origin', '*');
      response.setHeader('access-control-expose-headers', '*');
      response.setHeader('content-type', 'application/json');
      response.end('{"choices":[]}');
    });
    for (const corsOrigins of [[], ['https://app.example']]) {
      const closed = await startProxyForTest({ vendorUrl, corsOrigins });
      const answer = await post(closed, '/v1/chat/completions', HELLO, { origin: 'https://evil.example' });
      expect(answer.status).toBe(200);
      expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });
});
