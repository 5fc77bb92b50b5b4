import { request } from 'node:http';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { ALICE, settled } from './proxy.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor);

interface Answer {
  readonly status: number | undefined;
  readonly headers: Record<string, unknown>;
  readonly body: Buffer;
}

/** Without fetch, which decodes the response. */
function post(path: string, body: object, headers: Record<string, string>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(
      proxy.url + path,
      {
        method: 'POST',
        headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json', ...headers },
      },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () =>
          resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) }),
        );
      },
    );
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

const text = 'Hello there, weighbridge';
const messages = [{ role: 'user', content: text }];
const ROUTES: [string, object][] = [
  ['/v1/chat/completions', { model: 'mock/echo', messages }],
  ['/v1/responses', { model: 'mock/echo', input: text }],
  ['/v1/messages', { model: 'mock/echo', max_tokens: 100, messages }],
];
const DECODERS = { gzip: gunzipSync, deflate: inflateSync, br: brotliDecompressSync };
const CASES = ROUTES.flatMap(([path, body]) =>
  (['gzip', 'deflate', 'br'] as const).flatMap((encoding) =>
    [false, true].map((stream) => ({ path, body, encoding, stream })),
  ),
);

describe('an encoded response', () => {
  it.each(CASES)('of $path in $encoding, streamed: $stream, passes unchanged and is read', async (given) => {
    const { path, body, encoding, stream } = given;
    const options = stream && path.endsWith('completions') ? { stream_options: { include_usage: true } } : {};
    const answer = await post(
      path,
      { ...body, stream, ...options },
      {
        'accept-encoding': 'zstd, gzip;q=0.5, deflate, br',
        'x-mock-encoding': encoding,
        'x-mock-split': '7',
      },
    );
    expect(vendor.requests[0]?.headers['accept-encoding']).toBe('gzip;q=0.5, deflate, br');
    expect(answer.headers['content-encoding']).toBe(encoding);
    expect(DECODERS[encoding](answer.body).toString()).toContain('weighbridge');
    expect(settled(proxy.events)).toMatchObject([
      { outcome: 'SUCCESS', estimated: false, usage: { output: 6 } },
    ]);
    if (!stream) expect(answer.headers['x-svc-cost-micro-usd']).toBeDefined();
  });

  it.each(['gzip', 'deflate', 'br'])('of %s that has to be changed passes decoded', async (encoding) => {
    const answer = await post(
      '/v1/chat/completions',
      { model: 'mock/echo', messages, stream: true },
      { 'accept-encoding': 'gzip, br', 'x-mock-encoding': encoding },
    );
    expect(vendor.requests[0]?.headers['accept-encoding']).toBe('identity');
    expect(answer.headers).not.toHaveProperty('content-encoding');
    expect(answer.body.toString()).toMatch(/weighbridge.*\[DONE\]\n\n$/s);
    expect(answer.body.toString()).not.toContain('prompt_tokens');
    expect(settled(proxy.events)).toMatchObject([{ estimated: false, usage: { output: 6 } }]);
  });

  it('that breaks off is never ended as if it were complete', async () => {
    const broken = post(
      '/v1/messages',
      { model: 'mock/echo', max_tokens: 9, messages, stream: true },
      { 'x-mock-gzip': 'true', 'x-mock-reset': 'mid', 'accept-encoding': 'gzip' },
    );
    await expect(broken).rejects.toThrow();
    // The start of the stream reports the input.
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'INTERRUPTED', estimated: true, usage: { input: 13 } }]);
  });
});

describe('where the vendor reports no usage', () => {
  it.each(ROUTES)('%s costs its reservation, streamed and not', async (path, body) => {
    for (const stream of [false, true]) await post(path, { ...body, stream }, { 'x-mock-no-usage': 'true' });
    const [whole, streamed] = settled(proxy.events);
    for (const event of [whole, streamed]) {
      expect(event).toMatchObject({ estimated: true, outcome: 'SUCCESS' });
      expect(event?.usage.output).toBeGreaterThanOrEqual(5);
      expect(event?.usage.input).toBeGreaterThanOrEqual(12);
    }
  });

  it.each(ROUTES)('%s is counted by a tokenizer, if that costs more', async (path, body) => {
    const limit = path === '/v1/responses' ? 'max_output_tokens' : 'max_tokens';
    const headers = { 'x-mock-no-usage': 'true', 'x-mock-output-tokens': '3000' };
    for (const stream of [false, true]) await post(path, { ...body, [limit]: 3_000, stream }, headers);
    for (const event of settled(proxy.events)) {
      expect(event.estimated).toBe(true);
      expect(Math.abs((event.usage.output ?? 0) / 3000 - 1)).toBeLessThan(0.1);
    }
  });

  it('a long stream is extrapolated from its beginning', async () => {
    await post(
      '/v1/chat/completions',
      { model: 'mock/echo', messages, stream: true },
      { 'x-mock-no-usage': 'true', 'x-mock-chunks': '4000' },
    );
    const [event] = settled(proxy.events);
    expect(event?.estimated).toBe(true);
    expect(Math.abs((event?.usage.output ?? 0) / 4000 - 1)).toBeLessThan(0.05);
  });

  it.each(ROUTES)('or reports zeros, it costs its reservation: %s', async (path, body) => {
    for (const stream of [false, true])
      await post(path, { ...body, stream }, { 'x-mock-zero-usage': 'true' });
    for (const event of settled(proxy.events)) {
      expect(event).toMatchObject({ estimated: true, outcome: 'SUCCESS' });
      expect(event.cost).toBeGreaterThan(0n);
    }
  });

  it('a response with a wrong content type is read all the same', async () => {
    for (const [path, body] of ROUTES) {
      for (const type of ['text/html', 'application/json', 'text/event-stream']) {
        await post(path, { ...body, stream: type !== 'text/event-stream' }, { 'x-mock-content-type': type });
      }
    }
    expect(settled(proxy.events).map(({ estimated }) => estimated)).toEqual(Array(9).fill(false));
  });
});
