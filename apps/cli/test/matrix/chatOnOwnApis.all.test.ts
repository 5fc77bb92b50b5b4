import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientScene, openClientScene } from '../clients/clientScene.ts';
import { WEIGH } from './surface.ts';

/** Chat completions for vendors with an API of their own, from OpenAI's SDK. */
let scene: ClientScene;
beforeAll(async () => {
  scene = await openClientScene({}, { checksHistory: true });
});
afterAll(async () => {
  await scene?.close();
});

const CLAUDE = 'anthropic/claude-opus-5-5';
const GEMINI = 'gemini/gemini-3.8-flash';
const TURNS = 5;
const THINKS = { 'x-mock-tool': 'weigh {"truck":1}', 'x-mock-reasoning-tokens': '7' };

type Message = OpenAI.ChatCompletionMessageParam;

async function newKey(settings: object = {}) {
  const body = { name: 'chat', principal_id: 'chat', scopes: ['inference'], ...settings };
  const { id, key } = await scene.manage('POST', '/api/v1/keys', body);
  const client = new OpenAI({ baseURL: `${scene.tap.url}/v1`, apiKey: String(key), maxRetries: 0 });
  return { id: String(id), key: String(key), client };
}

/** The message of an answer, as the SDK gives it. */
async function answer(
  client: OpenAI,
  body: Omit<OpenAI.ChatCompletionCreateParams, 'stream'>,
  stream: boolean,
) {
  const completion = stream
    ? await client.chat.completions
        .stream({ ...body, stream: true, stream_options: { include_usage: true } })
        .finalChatCompletion()
    : await client.chat.completions.create({ ...body, stream: false });
  const message = completion.choices[0]?.message;
  if (!message) throw new Error('no choice');
  return { message, usage: completion.usage };
}

it.each([
  {
    model: CLAUDE,
    stream: false,
    signed: /"type":"thinking","thinking":"[^"]+","signature":"[A-Za-z0-9+/=]{40}"/g,
  },
  {
    model: CLAUDE,
    stream: true,
    signed: /"type":"thinking","thinking":"[^"]+","signature":"[A-Za-z0-9+/=]{40}"/g,
  },
  { model: GEMINI, stream: false, signed: /"thoughtSignature":"[A-Za-z0-9+/=]{40}"/g },
  { model: GEMINI, stream: true, signed: /"thoughtSignature":"[A-Za-z0-9+/=]{40}"/g },
])(
  'a tool loop of five turns keeps what $model signed, with stream: $stream',
  async ({ model, stream, signed }) => {
    const { id, client } = await newKey();
    const vendor = scene.vendor(model === CLAUDE ? 'anthropic' : 'gemini');
    scene.begin(THINKS);
    const tools = [{ type: 'function' as const, function: WEIGH }];
    const messages: Message[] = [{ role: 'system', content: 'Weigh trucks.' }];
    for (let turn = 0; turn < TURNS; turn++) {
      messages.push({ role: 'user', content: `Weigh truck ${turn}.` });
      const asked = { model, tools, reasoning_effort: 'low' as const, max_completion_tokens: 9_000 };
      const { message: called } = await answer(client, { ...asked, messages }, stream);
      messages.push(called);
      for (const { id: tool_call_id } of called.tool_calls ?? [])
        messages.push({ role: 'tool', tool_call_id, content: '40 tonnes' });
      const { message: said } = await answer(client, { ...asked, messages }, stream);
      expect(said.content).toContain('40 tonnes');
      messages.push(said);
    }
    const sent = vendor.requests.map(({ body }) => String(body).match(signed)?.length ?? 0);
    // Each answer was signed, and each later request has all of them, in the vendor's own words.
    expect(sent).toEqual(Array.from({ length: 2 * TURNS }, (_, at) => at));
    expect(vendor.requests.map(({ body }) => String(body)).join()).not.toContain('skip_thought_signature');
    await scene.expectBilled(id);
  },
);

it.each([
  { by: 'marks of the request', auto: false },
  { by: 'auto_cache of the policy', auto: true },
])("Claude's cache is written and read by $by, and the ledger has both", async ({ auto }) => {
  const { id: policy_id } = await scene.manage('POST', '/api/v1/policies', {
    name: 'caches',
    auto_cache: auto,
  });
  const { id, client } = await newKey({ policy_id });
  const mark = auto ? {} : { cache_control: { type: 'ephemeral' } };
  const rules = { type: 'text' as const, text: 'Weigh every truck twice. '.repeat(60), ...mark };
  const messages: Message[] = [
    { role: 'system', content: [rules] },
    { role: 'user', content: 'How heavy?' },
  ];
  const [vendor, body] = [scene.vendor('anthropic'), { model: CLAUDE, messages, max_completion_tokens: 99 }];
  scene.begin({ 'x-mock-cached-tokens': '30', 'x-mock-cache-write-tokens': '50' });
  for (const stream of [false, true]) {
    const { usage } = await answer(client, body, stream);
    expect(usage?.prompt_tokens_details).toMatchObject({ cached_tokens: 30, cache_write_tokens: 50 });
    expect(usage?.prompt_tokens).toBe(vendor.bill.at(-1)?.inputTokens);
  }
  for (const request of vendor.requests) {
    const sent = JSON.parse(String(request.body));
    expect(sent.system[0].cache_control).toEqual({ type: 'ephemeral' });
    expect(sent.messages[0].content[0].cache_control).toEqual(auto ? { type: 'ephemeral' } : undefined);
  }
  for (const row of await scene.expectBilled(id))
    expect([row.cache_read_tokens, row.cache_write_tokens]).toEqual([30, 50]);
});

it.each([
  { provider: 'anthropic' as const, model: CLAUDE, own: '/messages' },
  { provider: 'gemini' as const, model: GEMINI, own: ':generateContent' },
])('a connector of $provider that says compatible gets chat completions as they are', async (one) => {
  const { provider, model, own } = one;
  const { data } = await scene.manage('GET', `/api/v1/connectors?provider=${provider}`);
  const [connector] = data as { id: string; name: string; chat: string }[];
  expect(connector?.chat).toBe('native');
  const { key } = await newKey();
  const text = `{"model" : "${model}", "messages":[{"role":"user","content":"\\u0041 truck"}],"max_tokens":9}`;
  const paths = async () => {
    scene.begin();
    const response = await fetch(`${scene.tap.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: text,
    });
    expect(response.status).toBe(200);
    return scene.vendor(provider).requests.map(({ path }) => path);
  };
  expect((await paths())[0]).toContain(own);
  const change = (chat: string) => scene.manage('PATCH', `/api/v1/connectors/${connector?.id}`, { chat });
  await change('compatible');
  try {
    await expect.poll(async () => (await paths())[0]).toContain('/chat/completions');
    const [request] = scene.vendor(provider).requests;
    expect(String(request?.body)).toBe(text.replace(`"${model}"`, JSON.stringify(model.split('/')[1])));
  } finally {
    await change('native');
  }
});
