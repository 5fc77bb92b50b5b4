import Anthropic from '@anthropic-ai/sdk';
import { create } from '@bufbuild/protobuf';
import { AwsIdentitySchema, Dialect, Route } from '@weighbridge/contracts';
import { startBedrock } from '@weighbridge/mock-vendor/clouds';
import OpenAI from 'openai';
import { describe, expect, it, onTestFinished } from 'vitest';
import { post } from './post.ts';
import { ALICE, HARD, settled, type TestProxy } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const NOVA = 'amazon.nova-pro-v1:0';
const GPT = 'openai.gpt-oss-120b-1:0';
const MODEL = `bedrock/${NOVA}`;
const MISSING = 'bedrock/amazon.nova-9';
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary/secret+access/key=' };
const TEXT = 'Grüße, "Waage" ☃ \\u2603';
const POINT = { cachePoint: { type: 'default' } };
const PIXEL = 'iVBORw0KGgo=';

const vendor = useVendor({ traits: { strict: true } });

async function startScene() {
  const model = { sent: 'echo', answered: 'echo' };
  const models = { [NOVA]: { ...model, cachePoints: true }, [GPT]: model };
  const bedrock = await startBedrock({ region: 'eu-central-1', models, vendorUrl: vendor.url });
  onTestFinished(() => bedrock.close());
  bedrock.accounts = [KEYS];
  const value = create(AwsIdentitySchema, { region: 'eu-central-1', ...KEYS });
  const common = { provider: 'bedrock', nanoPerToken: 3_000n };
  const proxy = await startProxyForTest({
    vendorUrl: vendor.url,
    connectors: [
      {
        provider: 'bedrock',
        dialect: Dialect.ANTHROPIC,
        routes: [Route.MESSAGES, Route.CONVERSE],
        credential: '',
        baseUrl: bedrock.url,
        identity: { case: 'aws', value },
      },
    ],
    models: [
      { ...common, id: MODEL, upstreamName: NOVA, capabilities: ['image_input', 'tools', 'cache_marks'] },
      { ...common, id: MISSING, upstreamName: 'amazon.nova-9' },
      {
        ...common,
        id: `bedrock/${GPT}`,
        upstreamName: GPT,
        capabilities: ['tools', 'structured_output', 'reasoning', 'effort_low', 'effort_high'],
      },
    ],
    headroomNanoUsd: () => 1_000_000_000_000n,
  });
  return { bedrock, proxy };
}

const charged = ({ events }: TestProxy) => events.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
const billed = () =>
  vendor.bill.reduce(
    (sum, { inputTokens, outputTokens }) => sum + BigInt(inputTokens + outputTokens) * 3_000n,
    0n,
  );
const openai = (proxy: TestProxy) => new OpenAI({ apiKey: ALICE, baseURL: `${proxy.url}/v1`, maxRetries: 0 });
const anthropic = (proxy: TestProxy) => new Anthropic({ apiKey: ALICE, baseURL: proxy.url, maxRetries: 0 });
const generate = (proxy: TestProxy, body: object, method = 'generateContent') =>
  post(proxy, `/v1beta/models/${MODEL}:${method}`, body);

describe('models of Bedrock that are not Claude, by Converse', () => {
  it('serve callers of every dialect, whole and streamed, and charge what is billed', async () => {
    const { bedrock, proxy } = await startScene();
    const messages = [{ role: 'user' as const, content: TEXT }];
    const contents = { contents: [{ role: 'user', parts: [{ text: TEXT }] }] };
    const texts = [
      (await openai(proxy).chat.completions.create({ model: MODEL, messages })).choices[0]?.message.content,
      (await openai(proxy).chat.completions.stream({ model: MODEL, messages }).finalChatCompletion())
        .choices[0]?.message.content,
      (await openai(proxy).responses.create({ model: MODEL, input: TEXT, store: false })).output_text,
      textOf(await anthropic(proxy).messages.create({ model: MODEL, max_tokens: 400, messages })),
      textOf(
        await anthropic(proxy).messages.stream({ model: MODEL, max_tokens: 400, messages }).finalMessage(),
      ),
      ((await (await generate(proxy, contents)).json()) as Generated).candidates[0]?.content.parts[0]?.text,
    ];
    expect(new Set(texts)).toEqual(new Set([texts[0]]));
    expect(texts[0]).toMatch(/./);
    const streamed = await generate(proxy, contents, 'streamGenerateContent?alt=sse');
    expect(await streamed.text()).toContain('"finishReason":"STOP"');
    expect(bedrock.refusals).toEqual([]);
    expect(new Set(bedrock.invocations.map(({ path }) => path))).toEqual(
      new Set(
        ['converse', 'converse-stream'].map((action) => `/model/${encodeURIComponent(NOVA)}/${action}`),
      ),
    );
    await expect.poll(() => proxy.events.length).toBe(7);
    expect(charged(proxy)).toBe(billed());
  });

  it('get all that has a counterpart, and nothing that the cloud refuses', async () => {
    const { bedrock, proxy } = await startScene();
    const answer = await post(proxy, '/v1/messages', {
      model: MODEL,
      max_tokens: 300,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop_sequences: ['END'],
      metadata: { user_id: 'ada' },
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      tools: [
        {
          name: 'weigh',
          description: 'Weighs.',
          input_schema: { type: 'object', properties: {} },
          cache_control: { type: 'ephemeral' },
        },
      ],
      tool_choice: { type: 'any' },
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.', cache_control: { type: 'ephemeral', ttl: '1h' } },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
          ],
        },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'toolu_1', name: 'weigh', input: { load: 1.0 } }],
        },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              is_error: true,
              content: '40 tonnes',
              cache_control: { type: 'ephemeral' },
            },
          ],
        },
      ],
    });
    const text = await answer.text();
    expect([answer.status, text]).toEqual([200, expect.stringContaining('usage')]);
    const dropped = answer.headers.get('x-svc-dropped') ?? '';
    for (const lost of [
      'top_k dropped',
      'metadata.user_id dropped',
      'tools.0.cache_control dropped',
      'messages.0.content.0.cache_control.ttl changed',
    ]) {
      expect(dropped).toContain(lost);
    }
    expect(bedrock.invocations[0]?.body).toEqual({
      inferenceConfig: { maxTokens: 300, temperature: 0.5, topP: 0.9, stopSequences: ['END'] },
      system: [{ text: 'Be brief.' }, POINT],
      messages: [
        {
          role: 'user',
          content: [{ text: 'Look.' }, POINT, { image: { format: 'png', source: { bytes: PIXEL } } }],
        },
        {
          role: 'assistant',
          content: [{ toolUse: { toolUseId: 'toolu_1', name: 'weigh', input: { load: 1 } } }],
        },
        {
          role: 'user',
          content: [
            { toolResult: { toolUseId: 'toolu_1', content: [{ text: '40 tonnes' }], status: 'error' } },
            POINT,
          ],
        },
      ],
      toolConfig: {
        tools: [
          {
            toolSpec: {
              name: 'weigh',
              description: 'Weighs.',
              inputSchema: { json: { type: 'object', properties: {} } },
            },
          },
        ],
        toolChoice: { any: {} },
      },
    });
    expect(bedrock.refusals).toEqual([]);
  });

  it('get cache points where the catalog says that they take them, and charge by what the cache did', async () => {
    const { bedrock, proxy } = await startScene();
    vendor.script({ 'x-mock-cached-tokens': '2', 'x-mock-cache-write-tokens': '3' });
    onTestFinished(() => vendor.script({}));
    const content = [{ type: 'text', text: TEXT, cache_control: { type: 'ephemeral' } }];
    for (const path of ['/v1/messages', '/v1/chat/completions']) {
      for (const stream of [false, true]) {
        for (const [model, sent] of [
          [MODEL, [{ text: TEXT }, POINT]],
          [`bedrock/${GPT}`, [{ text: TEXT }]],
        ]) {
          const body = { model, max_tokens: 300, stream, messages: [{ role: 'user', content }] };
          const answer = await post(proxy, path, body);
          expect([answer.status, await answer.text()]).toEqual([200, expect.stringMatching(/./)]);
          expect(bedrock.invocations.at(-1)?.body.messages).toEqual([{ role: 'user', content: sent }]);
          expect(answer.headers.get('x-svc-dropped') ?? '').toBe(
            model === MODEL ? '' : 'messages.0.content.0.cache_control dropped',
          );
        }
      }
    }
    await expect.poll(() => proxy.events.length).toBe(8);
    const cached = settled(proxy.events).map(({ usage }) => [usage.cacheRead, usage.cacheWrite]);
    expect(cached).toEqual(Array(8).fill([2, 3]));
    expect([charged(proxy), bedrock.refusals]).toEqual([billed(), []]);
  });

  it('call tools over two turns, and write structured output by one', async () => {
    const { bedrock, proxy } = await startScene();
    vendor.script({ 'x-mock-tool': 'weigh {"load":"a truck"}', 'x-mock-tool-rounds': '1' });
    onTestFinished(() => vendor.script({}));
    const tools = [
      { type: 'function' as const, function: { name: 'weigh', parameters: { type: 'object' } } },
    ];
    const messages = [{ role: 'user' as const, content: 'Weigh.' }];
    for (const stream of [false, true]) {
      const { chat } = openai(proxy);
      const first = stream
        ? await chat.completions.stream({ model: MODEL, messages, tools }).finalChatCompletion()
        : await chat.completions.create({ model: MODEL, messages, tools });
      const [choice] = first.choices;
      const [call] = choice?.message.tool_calls ?? [];
      expect([
        choice?.finish_reason,
        call?.type === 'function' && JSON.parse(call.function.arguments),
      ]).toEqual(['tool_calls', { load: 'a truck' }]);
      const second = await chat.completions.create({
        model: MODEL,
        tools,
        messages: [
          ...messages,
          { role: 'assistant', tool_calls: choice?.message.tool_calls },
          { role: 'tool', tool_call_id: call?.id ?? '', content: '40 tonnes' },
        ] as OpenAI.ChatCompletionMessageParam[],
      });
      expect(second.choices[0]?.finish_reason).toBe('stop');
    }
    vendor.script({ 'x-mock-tool': 'structured_output {"tonnes":40}' });
    const schema = { type: 'object', properties: { tonnes: { type: 'integer' } }, required: ['tonnes'] };
    const written = await openai(proxy).chat.completions.create({
      model: MODEL,
      messages,
      response_format: { type: 'json_schema', json_schema: { name: 'weight', schema } },
    });
    expect(JSON.parse(written.choices[0]?.message.content ?? '')).toEqual({ tonnes: 40 });
    vendor.script({});
    const stated = await openai(proxy).chat.completions.create({
      model: `bedrock/${GPT}`,
      messages,
      reasoning_effort: 'high',
      response_format: { type: 'json_schema', json_schema: { name: 'weight', schema } },
    });
    expect(JSON.parse(stated.choices[0]?.message.content ?? '')).toEqual({ tonnes: expect.any(Number) });
    expect(bedrock.invocations.at(-1)?.body.outputConfig).toEqual({
      effort: 'high',
      textFormat: {
        type: 'json_schema',
        structure: { jsonSchema: { schema: JSON.stringify(schema), name: 'weight' } },
      },
    });
    expect(bedrock.refusals).toEqual([]);
    await expect.poll(() => charged(proxy)).toBe(billed());
  });

  it('give what they think, and get it back', async () => {
    const { bedrock, proxy } = await startScene();
    vendor.script({ 'x-mock-reasoning-tokens': '20' });
    onTestFinished(() => vendor.script({}));
    const messages = [{ role: 'user' as const, content: TEXT }];
    const first = await anthropic(proxy).messages.create({ model: MODEL, max_tokens: 2_000, messages });
    const thinking = first.content.find(({ type }) => type === 'thinking');
    expect(thinking).toMatchObject({ thinking: expect.stringMatching(/./) });
    const turns = [...messages, { role: 'assistant' as const, content: first.content }, ...messages];
    await anthropic(proxy).messages.create({ model: MODEL, max_tokens: 2_000, messages: turns });
    const sent = bedrock.invocations.at(-1)?.body.messages as { content: object[] }[];
    expect(sent[1]?.content[0]).toEqual({
      reasoningContent: { reasoningText: { text: expect.any(String), signature: 'bW9jaw==' } },
    });
    expect(bedrock.refusals).toEqual([]);
  });

  it('have a limit under a hard budget, and estimated counts', async () => {
    const { bedrock, proxy } = await startScene();
    const headers = { authorization: `Bearer ${HARD}` };
    const body = { model: MODEL, messages: [{ role: 'user', content: 'a' }] };
    const answer = await post(proxy, '/v1/chat/completions', body, headers);
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('choices')]);
    expect(bedrock.invocations[0]?.body.inferenceConfig).toEqual({ maxTokens: expect.any(Number) });
    const counted = await post(proxy, '/v1/messages/count_tokens', body);
    expect([counted.status, await counted.json()]).toEqual([200, { input_tokens: expect.any(Number) }]);
  });

  it.each(['exception', 'checksum', 'truncated'] as const)(
    'end a stream with an error if its frames end in %s',
    async (breaks) => {
      const { bedrock, proxy } = await startScene();
      bedrock.breaks = breaks;
      const body = { model: MODEL, messages: [{ role: 'user', content: TEXT }], stream: true };
      const answer = await post(proxy, '/v1/chat/completions', body);
      const text = await answer.text().catch(String);
      expect(text).toMatch(/"error"|terminated/);
      expect(text).not.toContain('"finish_reason":"stop"');
      await expect.poll(() => proxy.events.length).toBe(1);
    },
  );

  const BEGINS = [{ role: 'assistant', content: 'I begin.' }];
  const CALLED = 'must start with a user message';
  it.each<[string, string, object, number, string]>([
    ['a body, by chat completions', '/v1/chat/completions', { messages: BEGINS }, 400, CALLED],
    ['a body, by messages', '/v1/messages', { messages: BEGINS, max_tokens: 9 }, 400, CALLED],
    ['a body, by a stream', '/v1/messages', { messages: BEGINS, max_tokens: 9, stream: true }, 400, CALLED],
    ['a body, by responses', '/v1/responses', { input: BEGINS, store: false }, 400, CALLED],
    [
      'a body, by generateContent',
      `/v1beta/models/${MODEL}:generateContent`,
      { contents: [{ role: 'model', parts: [{ text: 'I begin.' }] }] },
      400,
      CALLED,
    ],
    [
      'a model that the region lacks',
      '/v1/chat/completions',
      { model: MISSING, messages: [{ role: 'user', content: 'a' }] },
      400,
      'model identifier is invalid',
    ],
    ['embeddings', '/v1/embeddings', { input: 'a' }, 400, 'embeddings'],
  ])(
    'refuse %s: a clear 4xx in the shape of the caller, which costs nothing and blames no credential',
    async (_what, path, fields, status, says) => {
      const { proxy } = await startScene();
      const answer = await post(proxy, path, { ...(!path.includes(':') && { model: MODEL }), ...fields });
      expect([answer.status, await answer.json()]).toMatchObject([
        status,
        { error: { message: expect.stringContaining(says) } },
      ]);
      expect([proxy.unauthorized, proxy.suspected, charged(proxy)]).toEqual([[], [], 0n]);
    },
  );
});

interface Generated {
  readonly candidates: readonly {
    readonly content: { readonly parts: readonly { readonly text: string }[] };
  }[];
}

function textOf({ content }: Anthropic.Message): string {
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}
