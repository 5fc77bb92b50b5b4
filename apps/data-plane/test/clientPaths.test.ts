import { connect } from 'node:net';
import Groq from 'groq-sdk';
import OpenAI, { AzureOpenAI } from 'openai';
import { describe, expect, it, vi } from 'vitest';
import { isInferencePath } from '../src/server/clientPaths.ts';
import { ALICE, BOB, settled } from './proxy.ts';
import { connectTo } from './rawClient.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const messages = [{ role: 'user' as const, content: 'weigh this' }];
const bearer = { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' };

interface ErrorBody {
  readonly type?: string;
  readonly error: {
    readonly type?: string;
    readonly code: string | number;
    readonly message: string;
    readonly status?: string;
    readonly served?: readonly string[];
    readonly details?: readonly { readonly reason?: string }[];
  };
}

async function bodyOf(answer: Response): Promise<ErrorBody> {
  return (await answer.json()) as ErrorBody;
}

describe("clients of other vendors' paths", () => {
  const proxy = useProxy(vendor);
  const azure = (options: { deployment?: string } = {}) =>
    new AzureOpenAI({
      endpoint: proxy.url,
      apiVersion: '2024-10-21',
      apiKey: ALICE,
      maxRetries: 0,
      ...options,
    });
  /** The body that the vendor got last, and where. */
  const sent = () => {
    const { path, body } = vendor.requests.at(-1) ?? { path: '', body: Buffer.from('{}') };
    return { path, model: JSON.parse(body.toString()).model };
  };

  it("serve Groq's SDK, which appends /openai/v1", async () => {
    const groq = new Groq({ baseURL: proxy.url, apiKey: ALICE, maxRetries: 0 });
    const { choices } = await groq.chat.completions.create({ model: 'mock/echo', messages });
    expect(choices[0]?.message.content).toBe('weigh this');
    let text = '';
    const stream = await groq.chat.completions.create({ model: 'mock/echo', messages, stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('weigh this');
    expect((await groq.models.list()).data.map(({ id }) => id)).toContain('mock/echo');
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'SUCCESS' }, { outcome: 'SUCCESS' }]);
  });

  it("serve Azure's SDK, whose deployment is the model", async () => {
    const named = await azure({ deployment: 'mock/echo' }).chat.completions.create({
      model: 'another',
      messages,
    });
    expect(named.choices[0]?.message.content).toBe('weigh this');
    expect(sent()).toEqual({ path: '/v1/chat/completions', model: 'echo' });
    await azure().chat.completions.create({ model: 'mock/gpt/with/slashes', messages });
    expect(sent()).toEqual({ path: '/v1/chat/completions', model: 'gpt/with/slashes' });
    const { data } = await azure().embeddings.create({ model: 'mock/echo', input: 'one' });
    expect(data).toHaveLength(1);
    let text = '';
    const stream = await azure().chat.completions.create({ model: 'mock/echo', messages, stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('weigh this');
    expect(proxy.events.map(({ modelRequested }) => modelRequested)).toEqual([
      'mock/echo',
      'mock/gpt/with/slashes',
      'mock/echo',
      'mock/echo',
    ]);
  });

  it("serve Azure's responses, which name their model, and read them back", async () => {
    const made = await azure().responses.create({ model: 'mock/echo', input: 'weigh this' });
    expect(made.output_text).toBe('weigh this');
    expect((await azure().responses.retrieve(made.id)).id).toBe(made.id);
    expect((await azure().responses.inputItems.list(made.id)).data).toHaveLength(1);
    expect(vendor.requests.every(({ path }) => !path.includes('api-version'))).toBe(true);
    const v1 = new OpenAI({
      baseURL: `${proxy.url}/openai/v1/`,
      apiKey: BOB,
      defaultQuery: { 'api-version': 'preview' },
      maxRetries: 0,
    });
    expect((await v1.responses.create({ model: 'mock/echo', input: 'one' })).output_text).toBe('one');
    expect(vendor.requests.at(-1)?.path).toBe('/v1/responses');
    // Another principal's, under any path.
    await expect(v1.responses.retrieve(made.id)).rejects.toMatchObject({ status: 404 });
  });

  it.each([
    ['{"messages":[{"role":"user","content":"x"}]}', 200],
    ['{ "model" : "none/such" , "messages":[{"role":"user","content":"x"}]}', 200],
    ['{}', 400],
    ['{  \n }', 400],
    ['[]', 400],
    ['{"model":"a","model":"b"}', 400],
    ['', 400],
  ])('take the model of the path for the body %s', async (body, status) => {
    const path = '/openai/deployments/mock%2Fecho/chat/completions?x=1&api-version=2024-10-21';
    const answer = await fetch(`${proxy.url}${path}`, { method: 'POST', headers: bearer, body });
    expect(answer.status).toBe(status);
    if (vendor.requests.length > 0)
      expect(sent()).toEqual({ path: '/v1/chat/completions?x=1', model: 'echo' });
    else expect((await bodyOf(answer)).error.code).toMatch(/malformed_json|duplicate_field/);
  });

  it('refuse a deployment that is no model, and other methods', async () => {
    const at = (path: string, init: RequestInit) =>
      fetch(`${proxy.url}${path}`, { headers: bearer, ...init });
    const unknown = await at('/openai/deployments/mock/nope/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ messages }),
    });
    expect([unknown.status, (await bodyOf(unknown)).error.code]).toEqual([404, 'model_not_found']);
    const got = await at('/openai/deployments/mock/echo/chat/completions', {});
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST']);
    const keyless = await at('/openai/deployments/mock/echo/chat/completions', {
      method: 'POST',
      headers: {},
    });
    expect(keyless.status).toBe(401);
  });
});

describe('an unserved route', () => {
  const proxy = useProxy(vendor);

  it.each([
    ['POST', '/v1/images/generations', {}, 'openai'],
    ['POST', '/openai/v1/audio/speech', {}, 'openai'],
    ['GET', '/openai/deployments/x/images/generations', {}, 'openai'],
    ['POST', '/v1/messages/batches', {}, 'anthropic'],
    ['POST', '/v1/complete', {}, 'anthropic'],
    ['GET', '/v1/files', { 'anthropic-version': '2023-06-01' }, 'anthropic'],
    ['GET', '/', {}, 'openai'],
  ])(
    '%s %s %j is 404 in the dialect of its caller, before its body is read',
    async (method, path, headers, dialect) => {
      const length = { 'content-type': 'text/plain', ...headers };
      const body = method === 'POST' ? 'x'.repeat(100_000) : null;
      const answer = await fetch(`${proxy.url}${path}?key=secret`, { method, headers: length, body });
      const { error, type } = await bodyOf(answer);
      expect([answer.status, type]).toEqual([404, dialect === 'anthropic' ? 'error' : undefined]);
      expect(error).toMatchObject({ type: 'not_found_error', code: 'route_not_served' });
      expect(error.message).toContain(`${method} ${path} is not served here.`);
      expect(error.message).not.toContain('secret');
      expect(error.served).toContain(
        dialect === 'anthropic' ? 'POST /v1/messages' : 'POST /v1/chat/completions',
      );
    },
  );

  it.each([
    ['/chat/completions', '/v1/chat/completions'],
    ['/v1/v1/messages', '/v1/messages'],
    ['/messages/count_tokens', '/v1/messages/count_tokens'],
    ['/responses/', '/v1/responses'],
    ['/responses/resp_1/cancel', '/v1/responses/{id}/cancel'],
    ['/v1/v1/responses/resp_1', '/v1/responses/{id}'],
    ['/embeddings', '/v1/embeddings'],
    ['/completions', '/v1/completions'],
    ['/models', '/v1/models'],
    ['/models/gpt-5', '/v1/models/{model}'],
    ['/feedback', '/v1/feedback'],
    ['/models/gemini-pro:generateContent', '/v1beta/models/{model}:generateContent'],
    ['/v1/v1beta/models/gemini-pro:countTokens', '/v1beta/models/{model}:countTokens'],
  ])('%s names the route that was meant', async (path, meant) => {
    const { error } = await bodyOf(await fetch(`${proxy.url}${path}`, { method: 'POST' }));
    expect(error.message).toContain(`Did you mean ${meant}? Check the base URL.`);
    // In one process, what is not inference goes to the control plane.
    expect(isInferencePath(path)).toBe(true);
  });

  it('is no route of the operator API or the console', () => {
    for (const path of [
      '/',
      '/api/v1/models',
      '/docs',
      '/console/models',
      '/metrics',
      '/responsesx',
      '/upload',
    ])
      expect([path, isInferencePath(path)]).toEqual([path, false]);
  });

  it('shows no more of a path than is needed', async () => {
    const { error } = await bodyOf(await fetch(`${proxy.url}/v1/${'x'.repeat(50_000)}`));
    expect(error.message.length).toBeLessThan(1_000);
  });
});

describe('an unserved route of Google', () => {
  const proxy = useProxy(vendor);

  it.each([
    ['/v1beta/files', {}],
    ['/upload/v1beta/files', {}],
    ['/v1alpha/models/x', {}],
    ['/nope/models/gemini-pro:batchGenerateContent', {}],
    ['/v1/files', { 'x-goog-api-key': 'x' }],
    ['/v1/files', { 'x-goog-api-client': 'google-genai-sdk/1' }],
  ])("%s %j is 404 in Google's shape", async (path, headers) => {
    const answer = await fetch(`${proxy.url}${path}`, { method: 'POST', headers });
    const { error } = await bodyOf(answer);
    expect([answer.status, error.code, error.status]).toEqual([404, 404, 'NOT_FOUND']);
    expect(error.message).toContain(`POST ${path} is not served here.`);
    expect(error.details?.[0]?.reason).toBe('ROUTE_NOT_SERVED');
  });
});

describe('a WebSocket', () => {
  const proxy = useProxy(vendor);
  const upgrade = (path: string, protocol: string, key = '', ends = false) =>
    new Promise<string>((resolve) => {
      const { hostname, port } = new URL(proxy.url);
      const socket = connect(Number(port), hostname).setEncoding('utf8');
      let text = '';
      socket.on('data', (piece) => {
        text += piece;
      });
      socket.on('close', () => resolve(text));
      const lines = [
        `GET ${path} HTTP/1.1`,
        'Host: x',
        'Connection: Upgrade',
        `Upgrade: ${protocol}`,
        'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
        ...(key ? [`Authorization: Bearer ${key}`] : []),
      ];
      socket.write(`${lines.join('\r\n')}\r\n\r\n`);
      if (ends) socket.end();
    });

  it.each(['/v1/responses', '/v1/realtime?model=x', '/v1/models', '/nope', '/healthz'])(
    'is refused at once on %s, with or without a key',
    async (path) => {
      for (const key of ['', ALICE]) {
        // Idle for longer, and still open when the other one is closed: it is not closed for being idle.
        const idle = await connectTo(proxy.url);
        idle.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n');
        await idle.reads(/^HTTP\/1.1 200/);
        const closedForIdling = vi.fn();
        void idle.closed.then(closedForIdling);
        const answer = await upgrade(path, key ? 'WebSocket' : 'h2c, websocket', key);
        expect(closedForIdling).not.toHaveBeenCalled();
        idle.destroy();
        expect(answer).toMatch(/^HTTP\/1.1 426 Upgrade Required\r\n/);
        expect(answer).toMatch(/\r\nupgrade: HTTP\/1.1\r\n/i);
        expect(answer).toMatch(/\r\nconnection: Upgrade, close\r\n/i);
        expect(answer).toContain('"code":"websocket_not_served"');
      }
    },
  );

  it('is not what another protocol asks for', async () => {
    expect(await upgrade('/v1/models', 'h2c', ALICE, true)).toMatch(/^HTTP\/1.1 200 OK\r\n/);
  });
});
