import Anthropic from '@anthropic-ai/sdk';
import { create } from '@bufbuild/protobuf';
import { AwsIdentitySchema, Dialect, Route } from '@weighbridge/contracts';
import { startBedrock, startMantle } from '@weighbridge/mock-vendor/clouds';
import OpenAI from 'openai';
import { describe, expect, it, onTestFinished } from 'vitest';
import { post } from './post.ts';
import { ALICE, type TestProxy } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const OSS = 'bedrock/openai.gpt-oss-120b-1:0';
const GROK = 'bedrock/xai.grok-4.3';
const CLAUDE = 'bedrock/anthropic.claude-opus-4-7';
const KEY = 'ABSKcanary-of-the-key';
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary/secret+access/key=' };
const TEXT = 'Grüße, "Waage" ☃ \\u2603';
const messages = [{ role: 'user' as const, content: TEXT }];

const vendor = useVendor({ traits: { strict: true } });

/** A proxy with Mantle's three addresses, and Bedrock's runtime behind them for what Mantle fails to answer. */
async function startScene() {
  const mantle = await startMantle({
    vendorUrl: vendor.url,
    apiKey: KEY,
    models: {
      'openai.gpt-oss-120b': { at: '/v1', sent: 'echo' },
      'xai.grok-4.3': { at: '/openai/v1', sent: 'echo' },
      'anthropic.claude-opus-4-7': { at: '/anthropic/v1', sent: 'echo' },
    },
  });
  onTestFinished(() => mantle.close());
  const runtime = { 'openai.gpt-oss-120b-1:0': { sent: 'echo', answered: 'echo' } };
  const bedrock = await startBedrock({ region: 'eu-central-1', models: runtime, vendorUrl: vendor.url });
  onTestFinished(() => bedrock.close());
  bedrock.accounts = [KEYS];
  const common = { provider: 'bedrock', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES], credential: KEY };
  const value = create(AwsIdentitySchema, { region: 'eu-central-1', ...KEYS });
  const lines: string[] = [];
  const proxy = await startProxyForTest({
    vendorUrl: vendor.url,
    connectors: [
      {
        ...common,
        baseUrl: `${mantle.url}/v1`,
        models: [OSS],
        upstreamNames: { [OSS]: 'openai.gpt-oss-120b' },
      },
      { ...common, baseUrl: `${mantle.url}/openai/v1`, models: [GROK] },
      {
        ...common,
        dialect: Dialect.ANTHROPIC,
        routes: [Route.MESSAGES],
        baseUrl: `${mantle.url}/anthropic/v1`,
        models: [CLAUDE],
      },
      {
        ...common,
        routes: [Route.MESSAGES, Route.CONVERSE],
        credential: '',
        baseUrl: bedrock.url,
        models: [OSS],
        identity: { case: 'aws', value },
      },
    ],
    models: [OSS, GROK, CLAUDE].map((id) => ({
      id,
      provider: 'bedrock',
      upstreamName: id.slice('bedrock/'.length),
      nanoPerToken: 3_000n,
    })),
    maxRetries: 2,
    log: (line) => void lines.push(line),
  });
  return { mantle, bedrock, proxy, lines };
}

const openai = (proxy: TestProxy) => new OpenAI({ apiKey: ALICE, baseURL: `${proxy.url}/v1`, maxRetries: 0 });
const anthropic = (proxy: TestProxy) => new Anthropic({ apiKey: ALICE, baseURL: proxy.url, maxRetries: 0 });
const charged = ({ events }: TestProxy) => events.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
const billed = () =>
  vendor.bill.reduce(
    (sum, { inputTokens, outputTokens }) => sum + BigInt(inputTokens + outputTokens) * 3_000n,
    0n,
  );

describe("Bedrock's models by Mantle, with its long-lived key", () => {
  it("serve OpenAI's SDK and Anthropic's, whole and streamed, and charge what is billed", async () => {
    const { mantle, bedrock, proxy } = await startScene();
    const { chat, responses } = openai(proxy);
    for (const model of [OSS, GROK]) {
      const whole = await chat.completions.create({ model, messages });
      const streamed = await chat.completions.stream({ model, messages }).finalChatCompletion();
      expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]?.message.content);
      expect((await responses.create({ model, input: TEXT })).output_text).toMatch(/./);
    }
    const asked = { model: CLAUDE, max_tokens: 400, messages };
    const claude = await anthropic(proxy).messages.create(asked);
    expect((await anthropic(proxy).messages.stream(asked).finalMessage()).content).toEqual(claude.content);
    expect([...new Set(mantle.requests.map(({ path, body }) => `${path} ${body.model}`))]).toEqual([
      '/v1/chat/completions openai.gpt-oss-120b',
      '/v1/responses openai.gpt-oss-120b',
      '/openai/v1/chat/completions xai.grok-4.3',
      '/openai/v1/responses xai.grok-4.3',
      '/anthropic/v1/messages anthropic.claude-opus-4-7',
    ]);
    expect([mantle.refusals, bedrock.invocations]).toEqual([[], []]);
    await expect.poll(() => proxy.events.length).toBe(8);
    expect(charged(proxy)).toBe(billed());
  });

  it('serve callers of every other dialect, translated', async () => {
    const { mantle, proxy } = await startScene();
    for (const stream of [false, true]) {
      const generate = stream ? 'streamGenerateContent?alt=sse' : 'generateContent';
      for (const model of [OSS, CLAUDE]) {
        const answers = await Promise.all([
          post(proxy, '/v1/messages', { model, max_tokens: 300, messages, stream }),
          post(proxy, '/v1/chat/completions', { model, messages, stream }),
          post(proxy, '/v1/responses', { model, input: TEXT, store: false, stream }),
          post(proxy, `/v1beta/models/${model}:${generate}`, {
            contents: [{ role: 'user', parts: [{ text: TEXT }] }],
          }),
        ]);
        const texts = await Promise.all(answers.map((answer) => answer.text()));
        expect([
          model,
          answers.map(({ status }) => status),
          texts.map((text) => /"error":\{/.test(text)),
        ]).toEqual([model, [200, 200, 200, 200], [false, false, false, false]]);
      }
    }
    expect(mantle.refusals).toEqual([]);
    await expect.poll(() => proxy.events.length).toBe(16);
    expect(charged(proxy)).toBe(billed());
  });

  it('are asked for by Converse once the key is refused, and the ledger has what both bill', async () => {
    const { mantle, bedrock, proxy } = await startScene();
    await openai(proxy).chat.completions.create({ model: OSS, messages });
    mantle.isRevoked = true;
    for (const stream of [false, true]) {
      const answer = await post(proxy, '/v1/chat/completions', { model: OSS, messages, stream });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringMatching(/choices/)]);
    }
    expect(new Set(mantle.refusals)).toEqual(new Set(['invalid_api_key']));
    expect([bedrock.invocations.length, bedrock.refusals]).toEqual([2, []]);
    expect(proxy.unauthorized).toContain('con_0: 401');
    await expect.poll(() => charged(proxy)).toBe(billed());
  });

  it('are 502 connector_unauthorized if no other connector has them, and the key is shown nowhere', async () => {
    const { mantle, proxy, lines } = await startScene();
    mantle.isRevoked = true;
    for (const [path, model] of [
      ['/v1/chat/completions', GROK],
      ['/v1/messages', CLAUDE],
    ] as const) {
      const answer = await post(proxy, path, { model, max_tokens: 9, messages });
      const text = await answer.text();
      expect([answer.status, text]).toEqual([502, expect.stringContaining('connector_unauthorized')]);
      expect(text + lines.join('\n')).not.toContain('canary');
    }
    expect(proxy.unauthorized).toEqual(expect.arrayContaining(['con_1: 401', 'con_2: 401']));
    expect([charged(proxy), vendor.bill]).toEqual([0n, []]);
  });

  it.each<[string, string, string, object, string]>([
    ['a body', '/v1/chat/completions', GROK, { made_up: 1 }, 'made_up'],
    ['a body of Claude', '/v1/messages', CLAUDE, { made_up: 1 }, 'made_up'],
  ])('refuse %s: a clear 400, which blames no credential', async (_what, path, model, fields, says) => {
    const { proxy } = await startScene();
    const answer = await post(proxy, path, { model, max_tokens: 9, messages, ...fields });
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { error: { message: expect.stringContaining(says) } },
    ]);
    expect([proxy.unauthorized, proxy.suspected, proxy.failovers, charged(proxy)]).toEqual([[], [], [], 0n]);
  });
});
