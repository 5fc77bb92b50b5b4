import { request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { startInferenceApp } from '../../test/inferenceApp.ts';
import { post } from '../../test/post.ts';
import { ALICE } from '../../test/proxy.ts';
import { startProxyForTest, useVendor } from '../../test/useProxy.ts';

const vendor = useVendor();

const HELLO = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 9 };
/** What proxies of companies, tracers and clients add, none of which is for a vendor. */
const PRIVATE = {
  'X-Svc-User': 'ada',
  'x-svc-unlisted': '1',
  'x-api-key': 'k',
  'api-key': 'k',
  'x-goog-api-key': 'k',
  cookie: 'c=1',
  'openai-organization': 'org',
  'openai-project': 'proj',
  'anthropic-workspace-id': 'ws',
  forwarded: 'for=1.2.3.4',
  'x-forwarded-for': '1.2.3.4',
  'x-forwarded-email': 'ada@example.com',
  'x-real-ip': '1.2.3.4',
  'cf-access-jwt-assertion': 'jwt',
  'cf-access-authenticated-user-email': 'ada@example.com',
  'x-goog-iap-jwt-assertion': 'jwt',
  'x-goog-authenticated-user-email': 'ada@example.com',
  'x-amzn-oidc-data': 'jwt',
  'x-amzn-oidc-identity': 'ada',
  'x-auth-request-email': 'ada@example.com',
  'x-ms-client-principal': 'ada',
  'x-ms-client-principal-name': 'ada',
  'tailscale-user-login': 'ada',
  'x-company-user': 'ada',
  'idempotency-key': 'mine',
  'x-request-id': '1',
  referer: 'https://wiki.example.com/secret-project',
  via: '1.1 proxy.example.com',
};
const COMMON = {
  accept: 'application/json',
  'user-agent': 'OpenAI/JS 7.0.0',
  'x-stainless-lang': 'js',
  'x-stainless-retry-count': '0',
  'x-client-request-id': 'mine',
  baggage: 'a=b',
};
const SENT = {
  '/v1/chat/completions': { ...COMMON, 'openai-beta': 'responses=v1', 'x-codex-turn-metadata': '{}' },
  '/v1/messages': {
    ...COMMON,
    'anthropic-version': '2023-06-01',
    'anthropic-beta': 'context-1m',
    'anthropic-dangerous-direct-browser-access': 'true',
    'x-app': 'cli',
    'x-claude-code-session-id': 's',
  },
};

describe('the headers of a client that reach a vendor', () => {
  it.each(Object.entries(SENT))('are those of SDKs and agents: %s', async (path, sent) => {
    const proxy = await startProxyForTest({ vendorUrl: vendor.url });
    await (await post(proxy, path, HELLO, { ...PRIVATE, ...sent })).text();
    const received = vendor.requests[0]?.headers ?? {};
    expect(received).toMatchObject(sent);
    const [ours] = path === '/v1/messages' ? ['x-api-key'] : ['authorization'];
    const own = ['host', 'connection', 'content-type', 'content-length', 'accept-encoding', ours];
    // fetch adds it.
    const rest = new Set([...own, ...Object.keys(sent), 'accept-language']);
    expect(Object.keys(received).filter((name) => !rest.has(name))).toEqual([]);
    expect(received[ours ?? '']).toMatch(/vendor-secret$/);
  });

  it.each(['text/plain;charset=x-evil', 'application/json; charset=utf-16', 'application/vnd.acme+json', ''])(
    'do not include its content type, %j',
    async (type) => {
      const app = await startInferenceApp(vendor.url);
      const answer = await app.ask({}, { 'content-type': type });
      await answer.text();
      expect(vendor.requests.map(({ headers }) => headers['content-type'])).toEqual(
        answer.status === 415 ? [] : ['application/json'],
      );
    },
  );

  it('include what its connector forwards, but nothing that no connector may', async () => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ forwardHeaders: ['x-company-user', 'x-acme-*', 'cookie', 'x-svc-*', 'x-ms-*'] }],
    });
    const acme = { 'x-acme-region': 'eu', 'x-acme-token': 'secret' };
    await (await post(proxy, '/v1/chat/completions', HELLO, { ...PRIVATE, ...acme })).text();
    const received = Object.keys(vendor.requests[0]?.headers ?? {});
    const all = [...Object.keys(PRIVATE), ...Object.keys(acme)];
    expect(all.filter((name) => received.includes(name.toLowerCase()))).toEqual([
      'x-company-user',
      'x-acme-region',
    ]);
  });

  it('do not include one that its connection header names', async () => {
    const proxy = await startProxyForTest({ vendorUrl: vendor.url });
    await new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${ALICE}`,
        'content-type': 'application/json',
        'openai-beta': 'x',
        connection: 'close, OpenAI-Beta',
      };
      const sent = request(`${proxy.url}/v1/chat/completions`, { method: 'POST', headers }, (response) =>
        response.resume().on('end', resolve),
      );
      sent.on('error', reject);
      sent.end(JSON.stringify(HELLO));
    });
    expect(vendor.requests.map(({ headers }) => headers['openai-beta'])).toEqual([undefined]);
  });
});

describe('the response cache', () => {
  it('tells requests apart by the headers that reach the vendor, and by no others', async () => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ forwardHeaders: ['x-acme-region'] }],
      policyCache: { policyId: 'pol_1', ttlMs: 60_000, scope: 'principal' },
    });
    const ask = async (headers: Record<string, string>) => {
      const answer = await post(proxy, '/v1/chat/completions', { ...HELLO, temperature: 0 }, headers);
      await answer.text();
      return answer.headers.get('x-svc-cache');
    };
    expect(await ask({ 'x-company-user': 'a' })).toBe('miss');
    expect(await ask({ 'x-company-user': 'b' })).toBe('hit');
    expect(await ask({ 'x-acme-region': 'eu' })).toBe('miss');
    expect(await ask({ 'x-acme-region': 'us' })).toBe('miss');
    expect(await ask({ 'x-acme-region': 'eu', 'cf-access-jwt-assertion': 'jwt' })).toBe('hit');
  });
});
