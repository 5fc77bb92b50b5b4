import { gzipSync } from 'node:zlib';
import { Outcome } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { post } from './post.ts';
import type { TestProxyOptions } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest } from './useProxy.ts';

const MESSAGES = [{ role: 'user', content: 'Hello there' }];
const ROUTES: [string, object][] = [
  ['/v1/chat/completions', { model: 'mock/echo', messages: MESSAGES }],
  ['/v1/chat/completions', { model: 'mock/echo', messages: MESSAGES, stream: true }],
  ['/v1/responses', { model: 'mock/echo', input: 'Hello there' }],
  ['/v1/embeddings', { model: 'mock/echo', input: 'Hello there' }],
  ['/v1/messages', { model: 'mock/echo', messages: MESSAGES, max_tokens: 100 }],
  ['/v1/messages/count_tokens', { model: 'mock/echo', messages: MESSAGES }],
];
const CHAT = ROUTES[0] as [string, object];
/** What a vendor says of our account. */
const HINT = 'Incorrect API key provided: sk-proj-***abcd of org-ours.';
const REFUSAL = JSON.stringify({
  error: { message: HINT, type: 'invalid_request_error', code: 'invalid_api_key' },
});
const FORBIDDEN = JSON.stringify({ type: 'error', error: { type: 'permission_error', message: HINT } });
const GEMINI = JSON.stringify([
  {
    error: { code: 400, message: HINT, status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] },
  },
]);
const FLAGGED = JSON.stringify({
  error: { message: 'Your input was flagged.', code: 'content_policy_violation' },
});

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly encoding?: 'gzip';
}

/** A proxy in front of vendors that reply so, in order of priority. */
async function startWith(replies: readonly Reply[], options: Partial<TestProxyOptions> = {}) {
  const asked: number[] = [];
  const urls = await Promise.all(
    replies.map(({ status, body, encoding }, at) =>
      startVendor((request, response) => {
        asked.push(at);
        request.resume();
        response.writeHead(status, {
          'content-type': 'application/json',
          'www-authenticate': 'Bearer realm="org-ours"',
          ...(encoding && { 'content-encoding': encoding }),
        });
        response.end(encoding ? gzipSync(body) : body);
      }),
    ),
  );
  const proxy = await startProxyForTest({
    vendorUrl: urls[0] ?? '',
    maxRetries: 2,
    ...options,
    connectors: urls.map((baseUrl) => ({ baseUrl })),
  });
  const ask = async ([path, body] = CHAT) => {
    const answer = await post(proxy, path, body);
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };
  return { proxy, asked, ask };
}

describe('a vendor that refuses the credential', () => {
  it.each([
    ['401', { status: 401, body: REFUSAL }],
    ['401 with any body', { status: 401, body: 'Unauthorized' }],
    ['403 of a permission', { status: 403, body: FORBIDDEN }],
    ['403 of a permission, compressed', { status: 403, body: FORBIDDEN, encoding: 'gzip' } as const],
    ['403 without a reason', { status: 403, body: '' }],
    ['400 of an invalid key', { status: 400, body: GEMINI, encoding: 'gzip' } as const],
  ])('is 502 connector_unauthorized on every route, and costs nothing: %s', async (_what, reply) => {
    for (const [path, body] of ROUTES) {
      const { proxy, ask } = await startWith([reply]);
      const { status, headers, text } = await ask([path, body]);
      expect([status, headers.get('x-should-retry'), headers.get('www-authenticate')]).toEqual([
        502,
        'false',
        null,
      ]);
      const error = JSON.parse(text);
      expect(error).toMatchObject(
        path.startsWith('/v1/messages')
          ? { type: 'error', error: { type: 'api_error', code: 'connector_unauthorized' } }
          : { error: { type: 'upstream_error', code: 'connector_unauthorized' } },
      );
      expect(text).not.toMatch(/sk-proj|org-ours|permission_error/);
      expect(error.error.message).toContain('The vendor mock refused');
      // Of a 403 only the vendor's list of models tells, which this vendor refuses too.
      await expect.poll(() => proxy.unauthorized).toEqual([`con_0: ${reply.status}`]);
      expect(proxy.suspected).toEqual(reply.status === 403 ? ['con_0: 403'] : []);
      for (const event of proxy.events) {
        expect([event.costNanoUsd, event.outcome]).toEqual([0n, Outcome.UPSTREAM_ERROR]);
      }
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    }
  });

  it('does not fail a request that another connector can serve', async () => {
    const good = JSON.stringify({ id: 'x', choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } });
    for (const refusal of [
      { status: 401, body: REFUSAL },
      { status: 403, body: FORBIDDEN },
    ]) {
      const { proxy, asked, ask } = await startWith([refusal, { status: 200, body: good }]);
      expect(await ask()).toMatchObject({ status: 200, text: good });
      // The first is dead.
      await expect.poll(() => proxy.unauthorized).toEqual([`con_0: ${refusal.status}`]);
      expect(await ask()).toMatchObject({ status: 200 });
      expect([asked, proxy.unauthorized, proxy.failovers]).toEqual([
        // The vendor's list of models, too, if it is unclear what a refusal is about.
        refusal.status === 401 ? [0, 1, 1] : [0, 0, 1, 1],
        [`con_0: ${refusal.status}`],
        ['con_0: credential'],
      ]);
    }
  });

  it('hides no error of a vendor that took the credential', async () => {
    const limited = { status: 429, body: '{"error":{"message":"slow down"}}' };
    const refusal = { status: 401, body: REFUSAL };
    const [before, after, both] = [
      await startWith([limited, refusal], { maxRetries: 1 }),
      await startWith([refusal, limited], { maxRetries: 1 }),
      await startWith([refusal, refusal], { maxRetries: 1 }),
    ];
    for (const { ask } of [before, after])
      expect(await ask()).toMatchObject({ status: 429, text: limited.body });
    expect(await both.ask()).toMatchObject({ status: 502 });
    expect(both.asked).toEqual([0, 1]);
  });
});

describe('a 403 about the request', () => {
  it.each([undefined, 'gzip'] as const)(
    'passes on as it is, and is about no connector: %s',
    async (encoding) => {
      const { proxy, asked, ask } = await startWith([
        { status: 403, body: FLAGGED, ...(encoding && { encoding }) },
        { status: 200, body: '{}' },
      ]);
      for (let at = 0; at < 2; at++) {
        expect(await ask()).toMatchObject({ status: 403, text: FLAGGED });
        expect(await ask(ROUTES[4])).toMatchObject({ status: 403, text: FLAGGED });
      }
      expect([asked, proxy.unauthorized, proxy.failovers]).toEqual([[0, 0, 0, 0], [], []]);
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    },
  );
});
