import { Route } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { HELLO, HELLO_BY_ROUTE, post } from './post.ts';
import { settled } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor, { chunkTimeoutMs: 500, drainMs: 300 });

describe.each(HELLO_BY_ROUTE)('a vendor error on %s', (path, body) => {
  const stream = { ...body, stream: true };

  it('before the response becomes a status, and is settled', async () => {
    const reset = await post(proxy, path, body, { 'x-mock-reset': 'before' });
    expect(reset.status).toBe(502);
    expect(await reset.json()).toMatchObject({ error: { code: 'upstream_error' } });
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]);
    const nobody = await startProxyForTest({ vendorUrl: 'http://127.0.0.1:1/v1' });
    expect((await post(nobody, path, body)).status).toBe(502);
    expect(settled(nobody.events)).toMatchObject([
      { outcome: 'UPSTREAM_UNREACHABLE', estimated: false, cost: 0n },
    ]);
  });

  it('within a document aborts the response instead of ending it', async () => {
    const answer = await post(proxy, path, body, { 'x-mock-reset': 'mid' });
    // A buffered response can still be replaced by an error status.
    expect(answer.status).toBe(502);
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]);
  });

  it.each([
    ['a reset', { 'x-mock-reset': 'mid' }, 'closed the connection early'],
    ['half a chunk', { 'x-mock-reset': 'mid', 'x-mock-split': '7' }, 'closed the connection early'],
    ['a stall', { 'x-mock-stall': 'mid' }, 'did not answer in time'],
  ])('within a stream becomes an error event: %s', async (_what, headers, message) => {
    const answer = await post(proxy, path, stream, headers);
    const seen = await answer.text();
    const last = seen.trimEnd().split('\n\n').at(-1) ?? '';
    expect(last).toContain(message);
    if (path !== '/v1/chat/completions') expect(last).toMatch(/^event: error\ndata: /);
    expect(JSON.parse(last.slice(last.indexOf('data: ') + 6))).toMatchObject({
      error: { message: expect.any(String) },
    });
    expect(seen).not.toContain('[DONE]');
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]);
  });

  it('leaves the connections usable', async () => {
    for (const how of ['headers', 'mid'])
      await (await post(proxy, path, stream, { 'x-mock-reset': how })).text();
    for (let at = 0; at < 5; at++)
      expect((await (await post(proxy, path, body)).json()) as object).toBeTruthy();
  });
});

describe('connectors', () => {
  it('take no more concurrent requests than allowed', async () => {
    const narrow = await startProxyForTest({ vendorUrl: vendor.url, connectors: [{ maxParallel: 1 }] });
    const first = post(narrow, '/v1/chat/completions', HELLO, { 'x-mock-delay-ms': '300' });
    await expect.poll(() => vendor.requests.length).toBe(1);
    const second = await post(narrow, '/v1/messages', { ...HELLO, max_tokens: 9 });
    expect(second.status).toBe(503);
    expect(await second.json()).toMatchObject({
      error: { type: 'overloaded_error', code: 'connector_busy' },
    });
    expect((await first).status).toBe(200);
    expect((await post(narrow, '/v1/chat/completions', HELLO)).status).toBe(200);
    // A refused request is not an attempt.
    expect(narrow.events).toHaveLength(2);
  });

  it('are never followed when they redirect', async () => {
    const reached: string[] = [];
    const elsewhere = await startVendor((received, response) => {
      reached.push(received.url ?? '');
      response.end('{}');
    });
    const redirecting = await startVendor((_received, response) =>
      response.writeHead(307, { location: `${elsewhere}/chat/completions` }).end(),
    );
    const misled = await startProxyForTest({ vendorUrl: redirecting });
    const answer = await post(misled, '/v1/chat/completions', HELLO);
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_redirect' } });
    expect(answer.headers.has('location')).toBe(false);
    expect(reached).toEqual([]);
    expect(settled(misled.events)).toMatchObject([{ outcome: 'UPSTREAM_ERROR', estimated: false, cost: 0n }]);
  });

  it('are not connected to at private addresses, unless that is allowed', async () => {
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
      const baseUrl = vendor.url.replace('127.0.0.1', host);
      const strict = await startProxyForTest({
        vendorUrl: vendor.url,
        connectors: [{ baseUrl, allowPrivateAddress: false }],
      });
      expect((await post(strict, '/v1/chat/completions', HELLO)).status).toBe(502);
      expect(settled(strict.events)).toMatchObject([{ outcome: 'UPSTREAM_UNREACHABLE', cost: 0n }]);
    }
    expect(vendor.requests).toHaveLength(0);
  });

  it('that do not serve a route are refused with the route that they serve', async () => {
    const chatOnly = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ routes: [Route.CHAT_COMPLETIONS] }],
    });
    const answer = await post(chatOnly, '/v1/embeddings', { model: HELLO.model, input: 'Hello' });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      error: { code: 'route_not_supported', message: expect.stringContaining('/v1/chat/completions') },
    });
  });

  it('may send 1xx responses and trailers, which are ignored', async () => {
    const odd = await startProxyForTest({
      vendorUrl: await startVendor((_received, response) => {
        response.writeEarlyHints({ link: '</x>; rel=preload' });
        response.writeHead(200, { 'content-type': 'application/json', trailer: 'x-t' });
        response.write('{"id":"1","usage":{"prompt_tokens":1,"completion_tokens":1}}');
        response.addTrailers({ 'x-t': '1' });
        response.end();
      }),
    });
    const answer = await post(odd, '/v1/chat/completions', HELLO);
    expect(await answer.json()).toMatchObject({ id: '1' });
    expect(settled(odd.events)).toMatchObject([{ outcome: 'SUCCESS', cost: 3_000n }]);
  });
});
