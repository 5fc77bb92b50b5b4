import { Dialect, Route } from '@weighbridge/contracts';
import { expectLinear } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { post } from './post.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const proxy = useProxy(vendor, {
  connectors: [
    { id: 'con_openai', provider: 'openai', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES] },
    { id: 'con_anthropic', provider: 'anthropic', dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
    { id: 'con_gemini', provider: 'gemini', routes: [Route.GENERATE_CONTENT] },
    { id: 'con_xai', provider: 'xai', routes: [Route.CHAT_COMPLETIONS] },
  ],
  models: ['openai/gpt-5', 'anthropic/claude', 'gemini/gemini-2.5-pro', 'xai/grok'].map((id) => ({
    id,
    nanoPerToken: 7n,
  })),
});

/** Parts, levels or characters. */
const SIZE = 10_000;

type Format = 'messages' | 'responses' | 'chat' | 'gemini';
interface Said {
  /** A call, by its id and its arguments as they are written. */
  readonly call: (id: string, args: string) => string;
  readonly result: (id: string) => string;
  readonly signed: (signature: string) => string;
  /** A request of turns, and of a tool with a schema. */
  readonly body: (turns: readonly string[], schema?: string) => string;
}

const q = JSON.stringify;
const SAY: Readonly<Record<Format, Said>> = {
  messages: {
    call: (id, args) =>
      `{"role":"assistant","content":[{"type":"tool_use","id":${q(id)},"name":"f","input":${args}}]}`,
    result: (id) => q({ role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: 'y' }] }),
    signed: (signature) =>
      q({
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'x', signature },
          { type: 'text', text: 'y' },
        ],
      }),
    body: (turns, schema = '{"type":"object"}') =>
      `{"model":"MODEL","max_tokens":100,"tools":[{"name":"f","input_schema":${schema}}],"messages":[{"role":"user","content":"x"},${turns.map((one) => `${one},`).join('')}{"role":"user","content":"z"}]}`,
  },
  responses: {
    call: (id, args) => `{"type":"function_call","call_id":${q(id)},"name":"f","arguments":${q(args)}}`,
    result: (id) => q({ type: 'function_call_output', call_id: id, output: 'y' }),
    signed: (encrypted_content) => q({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content }),
    body: (turns, schema = '{"type":"object"}') =>
      `{"model":"MODEL","store":false,"max_output_tokens":100,"tools":[{"type":"function","name":"f","parameters":${schema}}],"input":[{"role":"user","content":"x"},${turns.map((one) => `${one},`).join('')}{"role":"user","content":"z"}]}`,
  },
  chat: {
    call: (id, args) =>
      q({
        role: 'assistant',
        tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: args } }],
      }),
    result: (id) => q({ role: 'tool', tool_call_id: id, content: 'y' }),
    signed: (thought_signature) =>
      q({
        role: 'assistant',
        content: 'x',
        reasoning_content: 'y',
        extra_content: { google: { thought_signature } },
      }),
    body: (turns, schema = '{"type":"object"}') =>
      `{"model":"MODEL","max_tokens":100,"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}],"messages":[{"role":"user","content":"x"},${turns.map((one) => `${one},`).join('')}{"role":"user","content":"z"}]}`,
  },
  gemini: {
    call: (id, args) =>
      `{"role":"model","parts":[{"functionCall":{"id":${q(id)},"name":"f","args":${args}}}]}`,
    result: (id) =>
      q({ role: 'user', parts: [{ functionResponse: { id, name: 'f', response: { output: 'y' } } }] }),
    signed: (thoughtSignature) => q({ role: 'model', parts: [{ text: 'x', thoughtSignature }] }),
    body: (turns, schema = '{"type":"object"}') =>
      `{"generationConfig":{"maxOutputTokens":100},"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":${schema}}]}],"contents":[{"role":"user","parts":[{"text":"x"}]},${turns.map((one) => `${one},`).join('')}{"role":"user","parts":[{"text":"z"}]}]}`,
  },
};

const nested = (depth: number) => `${'{"type":"array","items":'.repeat(depth)}{}${'}'.repeat(depth)}`;
const turns = (...said: readonly string[]) => said;

/** What may be as large or as deep as the sender likes. */
const SIZED: Readonly<Record<string, (say: Said, size: number) => string>> = {
  'arguments of great depth': ({ call, result, body }, size) =>
    body(turns(call('a', `{"x":${'['.repeat(size)}${']'.repeat(size)}}`), result('a'))),
  'parts without end': ({ call, result, body }, size) =>
    body(
      turns(...Array.from({ length: size / 4 }, (_, at) => [call(`c${at}`, '{}'), result(`c${at}`)]).flat()),
    ),
  'a schema of great depth': ({ body }, size) => body(turns(), nested(size)),
  'an id without end': ({ call, result, body }, size) => {
    const id = `\u0000é"\\${'x'.repeat(size)}`;
    return body(turns(call(id, '{}'), result(id)));
  },
};

const HOSTILE: Readonly<Record<string, (say: Said) => string>> = {
  'arguments that are no JSON': ({ call, result, body }) =>
    body(turns(call('a', '"{\\"x\\":"'), result('a'))),
  'arguments that are a list': ({ call, result, body }) => body(turns(call('a', '[1,[2]]'), result('a'))),
  'one id for two calls': ({ call, result, body }) =>
    body(turns(call('a', '{}'), call('a', '{}'), result('a'), result('a'))),
  'the ids of calls and results mixed': ({ call, result, body }) => body(turns(call('a', '{}'), result('b'))),
  'results before their calls': ({ call, result, body }) => body(turns(result('a'), call('a', '{}'))),
  'a history that is cut in a call': ({ call, body }) => body(turns(call('a', '{}'))),
  'a signature of another vendor': ({ signed, body }) => body(turns(signed('c2lnbmF0dXJl'))),
  'a forged envelope': ({ signed, body }) =>
    body(
      turns(
        signed('wb1.anthropic.signature.con_openai.AAAA.BBBB'),
        signed('wb1.'),
        signed(`wb1.${'.'.repeat(999)}`),
      ),
    ),
  'a schema that refers to itself': ({ body }) =>
    body(turns(), '{"type":"object","properties":{"a":{"$ref":"#"}},"$defs":{"b":{"$ref":"#/$defs/b"}}}'),
  'a schema that is a number': ({ body }) => body(turns(), '7'),
  'turns that are no objects': ({ body }) => body(turns('null', '7', '"x"', '[[]]', '{}')),
};

const casesOf = (all: object) =>
  Object.keys(all).flatMap((what) =>
    (
      [
        ['messages', 'openai/gpt-5'],
        ['messages', 'xai/grok'],
        ['responses', 'anthropic/claude'],
        ['chat', 'gemini/gemini-2.5-pro'],
        ['chat', 'anthropic/claude'],
        ['gemini', 'openai/gpt-5'],
      ] as const
    ).map(([format, model]) => ({ what, format, model })),
  );
const PATHS = { messages: '/v1/messages', responses: '/v1/responses', chat: '/v1/chat/completions' };

/** Returns the status. */
async function expectRefusedOrBounded(format: Format, model: string, body: string): Promise<number> {
  const path = format === 'gemini' ? `/v1beta/models/${model}:generateContent` : PATHS[format];
  const response = await post(proxy, path, body.replace('MODEL', model));
  const text = await response.text();
  expect([200, 400], text.slice(0, 500)).toContain(response.status);
  if (response.status === 400) {
    expect(text).toMatch(/not_translatable|NOT_TRANSLATABLE|invalid_request|INVALID_REQUEST|malformed_json/);
    expect(vendor.requests).toEqual([]);
  }
  for (const { body: sent } of vendor.requests) expect(String(sent)).not.toContain('wb1.');
  return response.status;
}

it.each(casesOf(HOSTILE))(
  '$what is refused or bounded: $format on $model',
  async ({ what, format, model }) => {
    await expectRefusedOrBounded(format, model, HOSTILE[what]?.(SAY[format]) ?? '');
  },
);

it.each(casesOf(SIZED))('$what is translated in linear time: $format on $model', ({ what, format, model }) =>
  expectLinear(SIZE, (size) => {
    const body = SIZED[what]?.(SAY[format], size) ?? '';
    return async () => {
      vendor.clear();
      // A refusal would take less time than any translation.
      expect(await expectRefusedOrBounded(format, model, body)).toBe(200);
    };
  }),
);
