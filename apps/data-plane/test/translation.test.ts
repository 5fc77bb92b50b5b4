import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import { Dialect, Route } from '@weighbridge/contracts';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { ALICE, settled } from './proxy.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const CAPABILITIES = ['tools', 'structured_output', 'image_input', 'pdf_input', 'reasoning'];
const model = (id: string) => ({ id, nanoPerToken: 7n, capabilities: CAPABILITIES, maxOutputTokens: 32_000 });
const proxy = useProxy(vendor, {
  connectors: [
    { id: 'con_openai', provider: 'openai', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES] },
    { id: 'con_anthropic', provider: 'anthropic', dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
    { id: 'con_gemini', provider: 'gemini', routes: [Route.GENERATE_CONTENT] },
    { id: 'con_xai', provider: 'xai', routes: [Route.CHAT_COMPLETIONS] },
  ],
  models: ['openai/gpt-5', 'anthropic/claude', 'gemini/gemini-2.5-pro', 'xai/grok'].map(model),
});

const anthropic = () => new Anthropic({ baseURL: proxy.url, apiKey: ALICE, maxRetries: 0 });
const openai = () => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: ALICE, maxRetries: 0 });
const gemini = () => new GoogleGenAI({ apiKey: ALICE, httpOptions: { baseUrl: proxy.url } });

const TEXT = 'Hello there, weighbridge';
const ASK = 'Call weather for me';
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } as const;
const DESCRIPTION = 'Tells the weather.';

interface Caller {
  readonly model: string;
  /** The text of an answer. */
  readonly say: (text: string) => Promise<string>;
  readonly stream: (text: string) => Promise<string>;
  /** Calls a tool, answers it, and returns the text that follows. */
  readonly useTool: (
    stream: boolean,
  ) => Promise<{ readonly name: string; readonly args: unknown; readonly text: string }>;
}

async function messagesOf(body: Anthropic.MessageCreateParamsNonStreaming, stream: boolean) {
  return stream
    ? await anthropic().messages.stream(body).finalMessage()
    : await anthropic().messages.create(body);
}

function messages(name: string): Caller {
  const body = (text: string): Anthropic.MessageCreateParamsNonStreaming => ({
    model: name,
    max_tokens: 1_000,
    messages: [{ role: 'user', content: text }],
  });
  const textOf = ({ content }: Anthropic.Message) =>
    content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  return {
    model: name,
    say: async (text) => textOf(await messagesOf(body(text), false)),
    stream: async (text) => textOf(await messagesOf(body(text), true)),
    async useTool(stream) {
      const tools = [
        { name: 'weather', description: DESCRIPTION, input_schema: { ...PARAMETERS, required: ['city'] } },
      ];
      const asked = { ...body(ASK), tools };
      const first = await messagesOf(asked, stream);
      const call = first.content.find((block) => block.type === 'tool_use');
      expect(first.stop_reason).toBe('tool_use');
      const second = await messagesOf(
        {
          ...asked,
          messages: [
            ...asked.messages,
            { role: 'assistant', content: first.content },
            {
              role: 'user',
              content: [{ type: 'tool_result', tool_use_id: call?.id ?? '', content: 'sunny' }],
            },
          ],
        },
        stream,
      );
      return { name: call?.name ?? '', args: call?.input, text: textOf(second) };
    },
  };
}

async function responseOf(body: OpenAI.Responses.ResponseCreateParamsNonStreaming, stream: boolean) {
  return stream
    ? await openai()
        .responses.stream(body as { model: string })
        .finalResponse()
    : await openai().responses.create(body);
}

function responses(name: string): Caller {
  // The SDK puts `output_text` together for documents only.
  const textOf = ({ output }: OpenAI.Responses.Response) =>
    output
      .flatMap((item) => (item.type === 'message' ? item.content : []))
      .map((part) => (part.type === 'output_text' ? part.text : ''))
      .join('');
  return {
    model: name,
    say: async (input) => textOf(await responseOf({ model: name, input }, false)),
    stream: async (input) => textOf(await responseOf({ model: name, input }, true)),
    async useTool(stream) {
      const tool = {
        type: 'function' as const,
        name: 'weather',
        description: DESCRIPTION,
        parameters: PARAMETERS,
        strict: false,
      };
      const asked = { model: name, tools: [tool] };
      const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: ASK }];
      const first = await responseOf({ ...asked, input }, stream);
      const call = first.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))[0];
      const second = await responseOf(
        {
          ...asked,
          input: [
            ...input,
            ...(first.output as OpenAI.Responses.ResponseInputItem[]),
            { type: 'function_call_output', call_id: call?.call_id ?? '', output: 'sunny' },
          ],
        },
        stream,
      );
      return { name: call?.name ?? '', args: JSON.parse(call?.arguments ?? '{}'), text: textOf(second) };
    },
  };
}

async function completionOf(body: OpenAI.ChatCompletionCreateParamsNonStreaming, stream: boolean) {
  if (!stream) return await openai().chat.completions.create(body);
  return await openai()
    .chat.completions.stream({ ...body, stream: true })
    .finalChatCompletion();
}

function chat(name: string): Caller {
  const ask = async (
    messages: OpenAI.ChatCompletionMessageParam[],
    stream: boolean,
    tools?: OpenAI.ChatCompletionTool[],
  ) => {
    const { choices } = await completionOf({ model: name, messages, ...(tools && { tools }) }, stream);
    return choices[0]?.message;
  };
  const say = async (content: string, stream: boolean) =>
    (await ask([{ role: 'user', content }], stream))?.content ?? '';
  return {
    model: name,
    say: (text) => say(text, false),
    stream: (text) => say(text, true),
    async useTool(stream) {
      const tool = { name: 'weather', description: DESCRIPTION, parameters: PARAMETERS };
      const tools: OpenAI.ChatCompletionTool[] = [{ type: 'function', function: tool }];
      const said: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: ASK }];
      const first = await ask(said, stream, tools);
      const call = first?.tool_calls?.[0] as OpenAI.ChatCompletionMessageFunctionToolCall;
      const calls = {
        role: 'assistant' as const,
        content: first?.content ?? null,
        tool_calls: first?.tool_calls ?? [],
      };
      const result = { role: 'tool' as const, tool_call_id: call.id, content: 'sunny' };
      const second = await ask([...said, calls, result], stream, tools);
      return {
        name: call.function.name,
        args: JSON.parse(call.function.arguments),
        text: second?.content ?? '',
      };
    },
  };
}

function generateContent(name: string): Caller {
  const ask = async (contents: object[] | string, stream: boolean, config: object = {}) => {
    const asked = { model: name, contents: contents as never, config };
    if (!stream) return (await gemini().models.generateContent(asked)).candidates?.[0]?.content?.parts ?? [];
    const parts = [];
    for await (const chunk of await gemini().models.generateContentStream(asked)) {
      parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    }
    return parts;
  };
  const say = async (text: string, stream: boolean) =>
    (await ask(text, stream)).map((part) => part.text ?? '').join('');
  return {
    model: name,
    say: (text) => say(text, false),
    stream: (text) => say(text, true),
    async useTool(stream) {
      const config = {
        tools: [
          {
            functionDeclarations: [
              { name: 'weather', description: DESCRIPTION, parametersJsonSchema: PARAMETERS },
            ],
          },
        ],
      };
      const said = { role: 'user', parts: [{ text: ASK }] };
      const first = await ask([said], stream, config);
      const call = first.find((part) => part.functionCall)?.functionCall;
      const result = { functionResponse: { id: call?.id, name: 'weather', response: { output: 'sunny' } } };
      const turns = [said, { role: 'model', parts: first }, { role: 'user', parts: [result] }];
      const second = await ask(turns, stream, config);
      return {
        name: call?.name ?? '',
        args: call?.args,
        text: second.map((part) => part.text ?? '').join(''),
      };
    },
  };
}

const CALLERS = { messages, responses, chat, generateContent };
const MODELS = ['openai/gpt-5', 'anthropic/claude', 'gemini/gemini-2.5-pro', 'xai/grok'];
const PATHS: Readonly<Record<string, RegExp>> = {
  'openai/gpt-5': /^\/v1\/(responses|chat\/completions)$/,
  'anthropic/claude': /^\/v1\/messages$/,
  'gemini/gemini-2.5-pro': /^\/v1\/models\/gemini-2\.5-pro:(g|streamG)enerateContent/,
  'xai/grok': /^\/v1\/chat\/completions$/,
};

/** The ledger has what the vendor bills. */
function expectBilled(count: number) {
  const all = settled(proxy.events);
  expect(all.map(({ outcome, estimated }) => ({ outcome, estimated }))).toEqual(
    Array.from({ length: count }, () => ({ outcome: 'SUCCESS', estimated: false })),
  );
  expect(all.map(({ usage }) => [usage.input, usage.cacheRead, usage.output])).toEqual(
    vendor.bill.map((bill) => [
      bill.inputTokens - bill.cachedInputTokens,
      bill.cachedInputTokens,
      bill.outputTokens,
    ]),
  );
}

describe.each(Object.entries(CALLERS))('a caller of %s', (_name, caller) => {
  describe.each(MODELS)('and the model %s', (name) => {
    it('gets an answer', async () => {
      expect(await caller(name).say(TEXT)).toBe(TEXT);
      expect(vendor.requests[0]?.path).toMatch(PATHS[name] as RegExp);
      expectBilled(1);
    });

    it('gets it as a stream', async () => {
      expect(await caller(name).stream(TEXT)).toBe(TEXT);
      expectBilled(1);
    });

    it.each([false, true])('uses a tool, in two turns; streamed: %s', async (stream) => {
      const { name: tool, args, text } = await caller(name).useTool(stream);
      expect({ tool, args }).toEqual({ tool: 'weather', args: { city: expect.any(String) } });
      expect(text).toContain('sunny');
      expectBilled(2);
    });
  });
});

const SAID = [{ role: 'user', content: TEXT }];
/** What streams of answers are asked for by, and what their ends have. */
const STREAMS: readonly { path: string; model?: string; body: object; end: string }[] = [
  {
    path: '/v1/messages',
    model: 'openai/gpt-5',
    body: { messages: SAID, max_tokens: 1_000 },
    end: 'message_stop',
  },
  {
    path: '/v1/messages',
    model: 'xai/grok',
    body: { messages: SAID, max_tokens: 1_000 },
    end: 'message_stop',
  },
  {
    path: '/v1/messages',
    model: 'gemini/gemini-2.5-pro',
    body: { messages: SAID, max_tokens: 1_000 },
    end: 'message_stop',
  },
  { path: '/v1/responses', model: 'anthropic/claude', body: { input: TEXT }, end: 'response.completed' },
  { path: '/v1/chat/completions', model: 'anthropic/claude', body: { messages: SAID }, end: '[DONE]' },
  { path: '/v1/chat/completions', model: 'gemini/gemini-2.5-pro', body: { messages: SAID }, end: '[DONE]' },
];

describe('a translated request', () => {
  const HELLO = { model: 'openai/gpt-5', max_tokens: 100, messages: [{ role: 'user', content: TEXT }] };

  it('names every field that has no counterpart, in the dialect of the caller, and sends nothing', async () => {
    const response = await post(proxy, '/v1/messages', { ...HELLO, stop_sequences: ['x'], container: 'c_1' });
    expect(response.status).toBe(400);
    const { type, error } = (await response.json()) as { type: string; error: Record<string, unknown> };
    expect(type).toBe('error');
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'not_translatable' });
    expect((error.fields as { path: string }[]).map(({ path }) => path)).toEqual(
      expect.arrayContaining(['stop_sequences', 'container']),
    );
    expect(vendor.requests).toEqual([]);
    expect(proxy.events).toEqual([]);
  });

  it('says what was dropped', async () => {
    const content = [{ type: 'text', text: TEXT, cache_control: { type: 'ephemeral' } }];
    const response = await post(proxy, '/v1/messages', { ...HELLO, messages: [{ role: 'user', content }] });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-svc-dropped')).toContain('messages.0.content.0.cache_control dropped');
    expect(response.headers.get('x-svc-model')).toBe('openai/gpt-5');
    expect(response.headers.get('x-svc-cost-micro-usd')).not.toBeNull();
    const [event] = proxy.events;
    expect(event?.details?.dropped).toContain('messages.0.content.0.cache_control dropped');
  });

  it('does not hand the vendor what is of the caller and its dialect', async () => {
    const headers = { 'anthropic-beta': 'b-1', 'anthropic-version': '2023-06-01' };
    await post(proxy, '/v1/messages?beta=true', HELLO, headers);
    const [request] = vendor.requests;
    expect(request?.path).toBe('/v1/responses');
    expect(request?.headers.authorization).toBe('Bearer vendor-secret');
    expect(JSON.stringify(request?.rawHeaders)).not.toMatch(/anthropic|sk-svc/i);
  });

  it.each([false, true])(
    'gets the error of the vendor in the dialect of the caller; streamed: %s',
    async (stream) => {
      const response = await post(proxy, '/v1/messages', { ...HELLO, stream }, { 'x-mock-status': '429' });
      expect(response.status).toBe(429);
      expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'rate_limit_error' } });
    },
  );

  it.each(['x-mock-reset', 'x-mock-sse-error'])('ends with an error if the stream does: %s', async (name) => {
    const headers = { 'x-mock-output-tokens': '200', [name]: name === 'x-mock-reset' ? 'mid' : 'true' };
    for (const { path, body, end, model } of STREAMS) {
      const response = await post(proxy, path, { ...body, ...(model && { model }), stream: true }, headers);
      const text = await response.text();
      expect(text).toMatch(/"error"/);
      expect(text).not.toContain(end);
    }
    expect(settled(proxy.events).map(({ outcome }) => outcome)).not.toContain('SUCCESS');
  });

  it('is refused if it has more parts than can be translated in time', async () => {
    const content = Array.from({ length: 20_001 }, () => ({ type: 'text', text: 'x' }));
    const response = await post(proxy, '/v1/messages', { ...HELLO, messages: [{ role: 'user', content }] });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain('20000');
  });

  it.each([
    { 'x-mock-split': '1' },
    { 'x-mock-gzip': 'true' },
    { 'x-mock-split': '7', 'x-mock-encoding': 'deflate' },
  ])('is answered the same however the vendor sends its bytes: %o', async (headers) => {
    const ask = async (path: string, model: string, more: object, sent: Record<string, string> = {}) => {
      const response = await post(proxy, path, { model, max_tokens: 100, messages: SAID, ...more }, sent);
      expect(response.headers.get('content-encoding')).toBeNull();
      // Each answer has its own id.
      return (await response.text()).replaceAll(/"msg_\w+"/g, '"id"');
    };
    for (const model of ['openai/gpt-5', 'gemini/gemini-2.5-pro', 'xai/grok']) {
      for (const more of [{}, { stream: true }]) {
        const plain = await ask('/v1/messages', model, more);
        expect(plain).toContain('weighbridge');
        expect(await ask('/v1/messages', model, more, headers)).toBe(plain);
      }
    }
  });

  it('of a client of Gemini without `alt=sse` gets its stream as one array', async () => {
    const path = '/v1beta/models/anthropic/claude:streamGenerateContent';
    const response = await post(proxy, path, { contents: [{ role: 'user', parts: [{ text: TEXT }] }] });
    expect(response.headers.get('content-type')).toMatch(/^application\/json/);
    const chunks = (await response.json()) as { candidates: { content: { parts: { text: string }[] } }[] }[];
    const texts = chunks.flatMap(
      (chunk) => chunk.candidates[0]?.content?.parts.map(({ text }) => text) ?? [],
    );
    expect(texts.join('')).toBe(TEXT);
  });

  it('returns what a vendor signed to that vendor, and to its caller in an envelope', async () => {
    const body = {
      model: 'anthropic/claude',
      reasoning: { effort: 'low' },
      max_output_tokens: 4_000,
      store: false,
    };
    const input = [{ role: 'user', content: TEXT }];
    const headers = { 'x-mock-reasoning-tokens': '5' };
    const first = await post(proxy, '/v1/responses', { ...body, input }, headers);
    const { output } = (await first.json()) as { output: { type: string; encrypted_content?: string }[] };
    const sealed = output.find(({ type }) => type === 'reasoning')?.encrypted_content;
    expect(sealed).toMatch(/^wb1\./);
    const next = { ...body, input: [...input, ...output, { role: 'user', content: 'Go on' }] };
    await post(proxy, '/v1/responses', next);
    const sent = JSON.parse(String(vendor.requests[1]?.body)).messages[1].content[0];
    expect(sent).toMatchObject({ type: 'thinking', signature: expect.not.stringContaining('wb1.') });
    expect(sealed).toContain(sent.signature);
    await post(proxy, '/v1/responses', { ...next, model: 'gemini/gemini-2.5-pro' });
    expect(String(vendor.requests[2]?.body)).not.toContain(sent.signature);
  });
});
