import { Outcome, Route } from '@weighbridge/contracts';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { ALICE, type TestProxy } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const vendor = useVendor();
const MODEL = 'gpu/llama';
const HELLO = { model: MODEL, messages: [{ role: 'user' as const, content: 'Hello' }] };
const USAGE = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };

type Chunk = Readonly<Record<string, unknown>>;
interface Server {
  /** The stream's events; `asked`: for usage. */
  readonly stream: (asked: boolean) => readonly (Chunk | '[DONE]')[];
  readonly whole: Chunk;
}

const delta = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { role: 'assistant', content }, logprobs: null, finish_reason }],
});
const message = { role: 'assistant', content: 'Hi.', tool_calls: [] };
const whole = (fields: object = {}) => ({
  object: 'chat.completion',
  created: 1,
  model: 'llama',
  choices: [{ index: 0, message, finish_reason: 'stop', stop_reason: null }],
  usage: USAGE,
  ...fields,
});
const chunk = (fields: object) => ({
  object: 'chat.completion.chunk',
  created: 1,
  model: 'llama',
  ...fields,
});

/** How their streams differ, as their own servers write them. */
const SERVERS: Readonly<Record<string, Server>> = {
  // `usage` is null in each chunk until the last, which has no choice.
  vllm: {
    stream: (asked) => [
      chunk({ id: 'chatcmpl-a', ...delta('Hi'), usage: null }),
      chunk({ id: 'chatcmpl-a', ...delta('.', 'stop'), usage: null }),
      ...(asked ? [chunk({ id: 'chatcmpl-a', choices: [], usage: USAGE })] : []),
      '[DONE]',
    ],
    whole: whole({ id: 'chatcmpl-a', prompt_logprobs: null, kv_transfer_params: null }),
  },
  sglang: {
    stream: (asked) => [
      chunk({ id: 'a1b2', ...delta('Hi'), usage: null }),
      chunk({ id: 'a1b2', ...delta('.', 'stop'), usage: null }),
      ...(asked
        ? [chunk({ id: 'a1b2', choices: [], usage: { ...USAGE, prompt_tokens_details: null } })]
        : []),
      '[DONE]',
    ],
    whole: whole({ id: 'a1b2', metadata: { weight_version: 'default' } }),
  },
  ollama: {
    stream: (asked) => [
      chunk({ id: 'chatcmpl-12', system_fingerprint: 'fp_ollama', ...delta('Hi') }),
      chunk({ id: 'chatcmpl-12', system_fingerprint: 'fp_ollama', ...delta('.', 'stop') }),
      ...(asked ? [chunk({ id: 'chatcmpl-12', choices: [], usage: USAGE })] : []),
      '[DONE]',
    ],
    whole: whole({ id: 'chatcmpl-12', system_fingerprint: 'fp_ollama' }),
  },
  // No ids, and usage in the chunk that ends the choice.
  tgi: {
    stream: (asked) => [
      chunk({ id: '', ...delta('Hi'), usage: null }),
      chunk({ id: '', ...delta('.', 'stop'), usage: asked ? USAGE : null }),
      '[DONE]',
    ],
    whole: whole({ id: '' }),
  },
};

async function startServer(name: string, seen: Chunk[] = []): Promise<string> {
  const server = SERVERS[name] as Server;
  return await startVendor(async (request, response) => {
    let text = '';
    for await (const piece of request) text += piece;
    const body = JSON.parse(text) as { stream?: boolean; stream_options?: { include_usage?: boolean } };
    seen.push({ ...body, authorization: request.headers.authorization });
    if (!body.stream) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(server.whole));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of server.stream(body.stream_options?.include_usage === true)) {
      response.write(`data: ${event === '[DONE]' ? event : JSON.stringify(event)}\n\n`);
    }
    response.end();
  });
}

const open = (baseUrls: readonly string[], nanoPerToken: bigint) =>
  startProxyForTest({
    vendorUrl: vendor.url,
    connectors: baseUrls.map((baseUrl, priority) => ({
      provider: 'gpu',
      credential: '',
      baseUrl,
      priority,
      routes: [Route.CHAT_COMPLETIONS, Route.EMBEDDINGS, Route.COMPLETIONS],
    })),
    models: [{ id: MODEL, provider: 'gpu', upstreamName: 'llama', nanoPerToken }],
    maxRetries: 2,
  });
const openai = ({ url }: TestProxy) => new OpenAI({ apiKey: ALICE, baseURL: `${url}/v1`, maxRetries: 0 });

describe.each(Object.keys(SERVERS))('a server of models in the own network: %s', (name) => {
  it('is metered whole and streamed, without a credential, also for a client that asked for no usage', async () => {
    const seen: Chunk[] = [];
    const proxy = await open([await startServer(name, seen)], 5n);
    const client = openai(proxy);
    expect((await client.chat.completions.create(HELLO)).choices[0]?.message.content).toBe('Hi.');
    for (const stream_options of [undefined, { include_usage: true }]) {
      let text = '';
      const stream = await client.chat.completions.create({
        ...HELLO,
        stream: true,
        ...(stream_options && { stream_options }),
      });
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
      expect(text).toBe('Hi.');
    }
    expect((await client.responses.create({ model: MODEL, input: 'Hello' })).output_text).toBe('Hi.');
    await expect.poll(() => proxy.events.length).toBe(4);
    expect(proxy.events.map(({ costNanoUsd, outcome }) => [costNanoUsd, outcome])).toEqual(
      Array(4).fill([45n, Outcome.SUCCESS]),
    );
    expect(seen.map(({ model, authorization }) => [model, authorization])).toEqual(
      Array(4).fill(['llama', undefined]),
    );
  });

  it('is free at a price of zero, and leaves its requests to the next one while it is down', async () => {
    const down = await startVendor((request) => void request.socket.destroy());
    const proxy = await open([down, await startServer(name)], 0n);
    expect((await openai(proxy).chat.completions.create(HELLO)).choices[0]?.message.content).toBe('Hi.');
    expect(proxy.failovers).toHaveLength(1);
    await expect
      .poll(() => proxy.events.filter(({ outcome }) => outcome === Outcome.SUCCESS))
      .toHaveLength(1);
    expect(proxy.events.every(({ costNanoUsd }) => costNanoUsd === 0n)).toBe(true);
  });
});
