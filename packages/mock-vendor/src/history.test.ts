import { afterAll, beforeAll, expect, test } from 'vitest';
import { type MockVendor, startMockVendor } from './index.ts';

type Json = Record<string, unknown>;

let vendor: MockVendor;
let mistral: MockVendor;
let other: MockVendor;
beforeAll(async () => {
  const traits = { strict: true, checksHistory: true };
  vendor = await startMockVendor({ traits });
  mistral = await startMockVendor({ traits: { ...traits, refusesStreamOptions: true } });
  other = await startMockVendor({ traits });
});
afterAll(() => Promise.all([vendor.close(), mistral.close(), other.close()]));

const WEIGH = {
  'x-mock-tool': 'weigh {"truck":1}',
  'x-mock-parallel-calls': '2',
  'x-mock-reasoning-tokens': '5',
};
const parameters = { type: 'object', properties: { truck: { type: 'integer' } } };

async function post(to: MockVendor, path: string, body: Json, headers: Record<string, string> = WEIGH) {
  const response = await fetch(new URL(path, to.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const json = (await response.json()) as Json;
  return { status: response.status, json, error: String((json.error as Json | undefined)?.message ?? '') };
}

interface Dialect {
  /** A request, with the turns that follow its first. */
  readonly ask: (turns?: readonly Json[]) => [path: string, body: Json];
  /** What the caller sends back of an answer. */
  readonly said: (answer: Json) => Json[];
  readonly results: (said: readonly Json[]) => Json[];
  readonly calls: (said: readonly Json[]) => number;
}

const inside = (turn: Json | undefined, name: string) => (turn?.[name] ?? []) as Json[];
const DIALECTS: Readonly<Record<string, Dialect>> = {
  messages: {
    ask: (turns = []) => [
      '/v1/messages',
      {
        model: 'm',
        max_tokens: 99,
        tools: [{ name: 'weigh', input_schema: parameters }],
        messages: [{ role: 'user', content: 'x' }, ...turns],
      },
    ],
    said: ({ content }) => [{ role: 'assistant', content }],
    results: ([turn]) => [
      {
        role: 'user',
        content: inside(turn, 'content')
          .filter(({ type }) => type === 'tool_use')
          .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: '40' })),
      },
    ],
    calls: ([turn]) => inside(turn, 'content').filter(({ type }) => type === 'tool_use').length,
  },
  responses: {
    ask: (turns = []) => [
      '/v1/responses',
      {
        model: 'm',
        store: false,
        include: ['reasoning.encrypted_content'],
        tools: [{ type: 'function', name: 'weigh', parameters }],
        input: [{ role: 'user', content: 'x' }, ...turns],
      },
    ],
    said: ({ output }) => output as Json[],
    results: (items) =>
      items
        .filter(({ type }) => type === 'function_call')
        .map(({ call_id }) => ({ type: 'function_call_output', call_id, output: '40' })),
    calls: (items) => items.filter(({ type }) => type === 'function_call').length,
  },
  chat: {
    ask: (turns = []) => [
      '/v1/chat/completions',
      {
        model: 'm',
        tools: [{ type: 'function', function: { name: 'weigh', parameters } }],
        messages: [{ role: 'user', content: 'x' }, ...turns],
      },
    ],
    said: ({ choices }) => (choices as { message: Json }[]).map(({ message }) => message),
    results: ([turn]) =>
      inside(turn, 'tool_calls').map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '40' })),
    calls: ([turn]) => inside(turn, 'tool_calls').length,
  },
  gemini: {
    ask: (turns = []) => [
      '/v1beta/models/gemini-3.8-flash:generateContent',
      {
        tools: [{ functionDeclarations: [{ name: 'weigh', parameters }] }],
        contents: [{ role: 'user', parts: [{ text: 'x' }] }, ...turns],
      },
    ],
    said: ({ candidates }) => (candidates as { content: Json }[]).map(({ content }) => content),
    results: ([turn]) => [
      {
        role: 'user',
        parts: inside(turn, 'parts')
          .filter(({ functionCall }) => functionCall)
          .map(() => ({ functionResponse: { name: 'weigh', response: { output: '40' } } })),
      },
    ],
    calls: ([turn]) => inside(turn, 'parts').filter(({ functionCall }) => functionCall).length,
  },
};

test.each(Object.entries(DIALECTS))('%s: its own conversation goes on', async (_, one) => {
  const first = await post(vendor, ...one.ask());
  const said = one.said(first.json);
  expect(one.calls(said)).toBe(2);
  const second = await post(vendor, ...one.ask([...said, ...one.results(said)]));
  expect([second.status, second.error]).toEqual([200, '']);
  expect(JSON.stringify(second.json)).toContain('The tool answered');
});

test.each(Object.entries(DIALECTS))('%s: what could not have been said is refused', async (_, one) => {
  const said = one.said((await post(vendor, ...one.ask())).json);
  const results = one.results(said);
  const with_ = (turns: readonly Json[], more: Json) => turns.map((turn) => ({ ...turn, ...more }));
  const refused = [
    [...said],
    [...results],
    [...with_(said, { unheard_of: 1 }), ...results],
    [...said, ...results, ...results],
  ];
  for (const turns of refused) expect((await post(vendor, ...one.ask(turns))).status).toBe(400);
});

test.each(Object.entries(DIALECTS).filter(([name]) => name !== 'chat'))(
  "%s: another vendor's signature is refused",
  async (_, one) => {
    const said = one.said((await post(other, ...one.ask())).json);
    const { status, error } = await post(vendor, ...one.ask([...said, ...one.results(said)]));
    expect([status, error]).toEqual([
      400,
      expect.stringMatching(/signature|encrypted content .* could not be verified/),
    ]);
  },
);

test('Mistral has ids of its own, and refuses what only others have', async () => {
  const { ask, results } = DIALECTS.chat as Dialect;
  const call = (id: string) => ({ id, type: 'function', function: { name: 'weigh', arguments: '{}' } });
  const turn = (id: string, more = {}) => [
    { role: 'assistant', content: '', tool_calls: [call(id)], ...more },
  ];
  const statusOf = async (turns: Json[]) =>
    (await post(mistral, ...ask([...turns, ...results(turns)]))).status;
  expect(await statusOf(turn('abcdefgh1'))).toBe(200);
  expect(await statusOf(turn('call_0123'))).toBe(400);
  expect(await statusOf(turn('abcdefgh1', { refusal: null }))).toBe(422);
});

test('schemas outside of the subset that Gemini reads are refused', async () => {
  const [path, body] = (DIALECTS.gemini as Dialect).ask();
  const closed = { ...parameters, additionalProperties: false };
  const tools = (declared: Json) => [{ functionDeclarations: [{ name: 'weigh', ...declared }] }];
  expect((await post(vendor, path, { ...body, tools: tools({ parameters: closed }) })).status).toBe(400);
  expect((await post(vendor, path, { ...body, tools: tools({ parametersJsonSchema: closed }) })).status).toBe(
    200,
  );
});

test.each(Object.entries(DIALECTS))(
  '%s: a stream makes the same calls, and bills the same',
  async (name, one) => {
    vendor.clear();
    const [path, body] = one.ask();
    await post(vendor, path, body);
    const streamed = name === 'gemini' ? path.replace(':generate', ':streamGenerate') : path;
    const response = await fetch(new URL(`${streamed}?alt=sse`, vendor.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...WEIGH },
      body: JSON.stringify(name === 'gemini' ? body : { ...body, stream: true }),
    });
    const text = await response.text();
    const opened = {
      messages: /"type":"tool_use"/g,
      responses: /item.added[^\n]*\n[^\n]*"type":"function_call"/g,
      chat: /"id":"call_/g,
      gemini: /"functionCall"/g,
    };
    expect(text.match(opened[name as keyof typeof opened])).toHaveLength(2);
    const [whole, inPieces] = vendor.bill;
    expect(inPieces).toMatchObject({ inputTokens: whole?.inputTokens, outputTokens: whole?.outputTokens });
  },
);
