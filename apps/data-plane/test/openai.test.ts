import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { ALICE, BOB, ONE_MODEL, SPENT, settled } from './proxy.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret' });
const proxy = useProxy(vendor);

function client(apiKey = ALICE, options: { maxRetries?: number; timeout?: number } = {}): OpenAI {
  return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey, maxRetries: 0, ...options });
}

const messages = [{ role: 'user' as const, content: 'Hello there, weighbridge' }];
const hello = { model: 'mock/echo', messages };

describe('the OpenAI SDK', () => {
  it('completes, with the cost in a header', async () => {
    const { data, response } = await client().chat.completions.create(hello).withResponse();
    expect(data.choices[0]?.message.content).toBe(messages[0]?.content);
    expect(response.headers.get('x-svc-cost-micro-usd')).toBe('25');
    expect(response.headers.get('x-request-id')).toMatch(/^req_/);
    expect(Number(response.headers.get('x-svc-overhead-ms'))).toBeGreaterThanOrEqual(0);
  });

  it('streams without a usage chunk, unless it asked for one', async () => {
    const usages: unknown[] = [];
    for await (const chunk of await client().chat.completions.create({ ...hello, stream: true })) {
      usages.push(chunk.usage ?? undefined);
    }
    expect(usages.every((usage) => usage === undefined)).toBe(true);
    const asked = await client()
      .chat.completions.stream({ ...hello, stream_options: { include_usage: true } })
      .finalChatCompletion();
    expect(asked.usage).toMatchObject({ prompt_tokens: 13, completion_tokens: 6 });
    expect(settled(proxy.events)).toMatchObject([
      { estimated: false, usage: { input: 13, output: 6 } },
      { estimated: false, usage: { input: 13, output: 6 } },
    ]);
  });

  it('runs tools through its helper', async () => {
    const runner = client().chat.completions.runTools({
      ...hello,
      messages: [{ role: 'user', content: 'use weather' }],
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'tells the weather',
            parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
            function: (text: string) => `sunny ${text.length}`,
          },
        },
      ],
    });
    expect(await runner.finalContent()).toContain('sunny');
    expect(proxy.events).toHaveLength(2);
  });

  it('embeds, and pays for the input alone', async () => {
    const { data, usage } = await client().embeddings.create({
      model: 'mock/echo',
      input: ['one', 'two and three'],
    });
    expect(data).toHaveLength(2);
    expect(data[0]?.embedding).toHaveLength(8);
    expect(settled(proxy.events)).toMatchObject([
      {
        estimated: false,
        usage: { input: usage.prompt_tokens, output: 0 },
        cost: BigInt(usage.prompt_tokens) * 1_000n,
      },
    ]);
    await expect(client(SPENT).embeddings.create({ model: 'mock/echo', input: 'x' })).rejects.toMatchObject({
      code: 'budget_exhausted',
    });
  });

  it('lists the models that its key can use, and retrieves one of any name', async () => {
    const ids: string[] = [];
    for await (const model of client().models.list()) ids.push(model.id);
    expect(ids).toEqual(['mock/echo', 'mock/gpt/with/slashes', 'other/model']);
    expect((await client(ONE_MODEL).models.list()).data).toMatchObject([
      { id: 'mock/echo', object: 'model', owned_by: 'mock' },
    ]);
    expect(await client().models.retrieve('mock/gpt/with/slashes')).toMatchObject({ object: 'model' });
    const unescaped = await fetch(`${proxy.url}/v1/models/mock/gpt/with/slashes`, {
      headers: { authorization: `Bearer ${ALICE}` },
    });
    expect(unescaped.status).toBe(200);
    await expect(client(ONE_MODEL).models.retrieve('other/model')).rejects.toThrow(OpenAI.NotFoundError);
    expect(vendor.requests).toHaveLength(0);
  });

  it("gets errors of the SDK's classes, and the vendor's errors unchanged", async () => {
    const ask = (status: number) =>
      client().chat.completions.create(hello, { headers: { 'x-mock-status': String(status) } });
    await expect(client('sk-svc-x').chat.completions.create(hello)).rejects.toThrow(
      OpenAI.AuthenticationError,
    );
    await expect(ask(400)).rejects.toThrow(OpenAI.BadRequestError);
    // The vendor refuses the credential of this service, not the client's.
    await expect(ask(403)).rejects.toMatchObject({ status: 502, code: 'connector_unauthorized' });
    await expect(ask(429)).rejects.toThrow(OpenAI.RateLimitError);
    await expect(ask(500)).rejects.toThrow(OpenAI.InternalServerError);
    const embed = client().embeddings.create({ model: 'other/model', input: 'x' });
    await expect(embed).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
    expect(settled(proxy.events).every(({ cost }) => cost === 0n)).toBe(true);
  });

  it('retries, and every attempt is metered', async () => {
    const failing = client(ALICE, { maxRetries: 2 }).chat.completions.create(hello, {
      headers: { 'x-mock-status': '503' },
    });
    await expect(failing).rejects.toThrow(OpenAI.InternalServerError);
    expect(vendor.requests).toHaveLength(3);
    expect(new Set(proxy.events.map(({ requestId }) => requestId)).size).toBe(3);
  });

  it("aborts a stream, and the rest of the vendor's stream is read for its usage", async () => {
    const stream = await client().chat.completions.create(
      { ...hello, stream: true },
      { headers: { 'x-mock-chunks': '20', 'x-mock-chunk-delay-ms': '10' } },
    );
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: false, usage: { output: 20 } }]);
  });

  it('stops waiting, and the usage is charged', async () => {
    const asked = client(ALICE, { timeout: 100 }).chat.completions.create(hello, {
      headers: { 'x-mock-chunk-delay-ms': '0', 'x-mock-delay-ms': '400' },
    });
    await expect(asked).rejects.toThrow(OpenAI.APIConnectionTimeoutError);
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: false, usage: { output: 6 } }]);
  });
});

describe('the request that the vendor receives', () => {
  it("is the client's, except for the headers of this service and of the connection", async () => {
    await fetch(`${proxy.url}/v1/chat/completions?api-version=1&x=%2F`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${BOB}`,
        'content-type': 'application/json; charset=utf-8',
        'X-SVC-User': 'me',
        'x-svc-team': 'mine',
        'x-svc-labels': 'a=1, b = 2,,c',
        'x-svc-unknown': '1',
        'x-api-key': 'k1',
        'api-key': 'k2',
        'x-goog-api-key': 'k3',
        cookie: 'c=1',
        'openai-organization': 'org',
        'openai-project': 'proj',
        forwarded: 'for=1.2.3.4',
        'x-forwarded-for': '1.2.3.4',
        'x-real-ip': '1.2.3.4',
        'x-custom': 'dropped',
        'openai-beta': 'kept',
      },
      body: JSON.stringify(hello),
    });
    const [request] = vendor.requests;
    expect(request?.path).toBe('/v1/chat/completions?api-version=1&x=%2F');
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer vendor-secret',
      'content-type': 'application/json',
      'openai-beta': 'kept',
    });
    expect(request?.headers).not.toHaveProperty('x-custom');
    expect(JSON.stringify(request?.rawHeaders)).not.toMatch(/svc|k1|k2|k3|cookie|org|proj|1\.2\.3\.4/i);
    // Attribution that is locked on the key overrides the client's.
    expect(proxy.events[0]?.attribution).toMatchObject({
      user: 'me',
      team: 'locked',
      labels: { a: '1', b: '2' },
    });
  });
});
