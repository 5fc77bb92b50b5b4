import { describe, expect, it } from 'vitest';
import { ALICE } from './proxy.ts';
import { callsOf, googleCalls, type SdkCall } from './sdkPaths.ts';
import { useProxy, useVendor } from './useProxy.ts';

/*
 * Every operation that the vendors' SDKs can call, read from their packages: it is served, or refused before its body is read, as
 * one that is not served or, at a path that other operations have, as a method that is not allowed.
 */
const vendor = useVendor();
const proxy = useProxy(vendor);

interface Refused {
  readonly error?: {
    readonly code?: unknown;
    readonly message?: string;
    readonly served?: readonly string[];
    readonly details?: readonly {
      readonly reason?: string;
      readonly metadata?: Readonly<Record<string, string>>;
    }[];
  };
}

/** The calls that are served, as this service answers them without a body; all others have to be refused. */
async function servedOf(
  calls: readonly SdkCall[],
  prefix: string,
  headers: Readonly<Record<string, string>>,
): Promise<string[]> {
  const served: string[] = [];
  for (const [method, path] of calls) {
    const call = `${method} ${path}`;
    const hasBody = method !== 'GET' && method !== 'DELETE';
    const answer = await fetch(`${proxy.url}${prefix}${path}`, {
      method,
      headers,
      // Refused before it is read: a multipart body is none that any route takes.
      ...(hasBody && { body: '--x--' }),
    });
    const { error } = (await answer.json()) as Refused;
    const code = error?.details?.[0]?.metadata?.code ?? error?.code;
    if (answer.status === 405) {
      expect([call, code]).toEqual([call, 'method_not_allowed']);
      expect(answer.headers.get('allow')?.split(', '), call).not.toContain(method);
      continue;
    }
    if (code !== 'route_not_served') {
      expect(answer.status, call).toBeLessThan(500);
      served.push(call);
      continue;
    }
    expect([call, answer.status]).toEqual([call, 404]);
    expect(error?.message, call).toContain(`${method} ${prefix}${path.split('?')[0]} is not served here.`);
    expect(error?.message, call).toContain('Served are: POST /v1');
  }
  return served;
}

const multipart = { 'content-type': 'multipart/form-data; boundary=x' };

it.each(['/v1', '/openai/v1'])("OpenAI's SDK, below %s", async (prefix) => {
  const calls = callsOf('openai');
  expect(calls.length).toBeGreaterThan(150);
  expect(await servedOf(calls, prefix, { authorization: `Bearer ${ALICE}`, ...multipart })).toEqual([
    'DELETE /responses/x1',
    'GET /models',
    'GET /models/x1',
    'GET /responses/x1',
    'GET /responses/x1/input_items',
    'POST /chat/completions',
    'POST /completions',
    'POST /embeddings',
    'POST /responses',
    'POST /responses/compact',
    'POST /responses/input_tokens',
    'POST /responses/x1/cancel',
  ]);
});

it("Anthropic's SDK", async () => {
  const calls = callsOf('@anthropic-ai/sdk');
  expect(calls.length).toBeGreaterThan(150);
  const headers = { 'x-api-key': ALICE, 'anthropic-version': '2023-06-01', ...multipart };
  const served = await servedOf(calls, '', headers);
  expect([...new Set(served.map((call) => call.replace('?beta=true', '')))]).toEqual([
    'GET /v1/models',
    'GET /v1/models/x1',
    'POST /v1/messages',
    'POST /v1/messages/count_tokens',
  ]);
});

describe("Google's SDK", () => {
  it.each(['/v1beta', '/v1'])('below %s', async (prefix) => {
    const calls = googleCalls();
    expect(calls.length).toBeGreaterThan(80);
    expect(await servedOf(calls, prefix, { 'x-goog-api-key': ALICE, ...multipart })).toEqual([
      'GET /models',
      'GET /models/x1',
      'POST /models/x1:batchEmbedContents',
      'POST /models/x1:countTokens',
      'POST /models/x1:generateContent',
      'POST /models/x1:streamGenerateContent?alt=sse',
    ]);
  });
});

it('is refused before a key is looked up, as any other path', async () => {
  const cases = { '/v1/responses/x1': 405, '/v1beta/models/x1:predict': 404, '/v1/nope': 404 };
  for (const [path, status] of Object.entries(cases)) {
    const answer = await fetch(`${proxy.url}${path}`, { method: 'POST' });
    expect([path, answer.status]).toEqual([path, status]);
  }
});

it('is 405 at a path that is served for other methods', async () => {
  const key = { authorization: `Bearer ${ALICE}` };
  for (const call of ['GET /v1/chat/completions', 'DELETE /v1/messages', 'DELETE /v1/models/x1']) {
    const [method = '', path] = call.split(' ');
    const answer = await fetch(`${proxy.url}${path}`, { method, headers: key });
    expect([call, answer.status, answer.headers.has('allow')]).toEqual([call, 405, true]);
  }
});
