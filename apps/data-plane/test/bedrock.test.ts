import Anthropic from '@anthropic-ai/sdk';
import { create } from '@bufbuild/protobuf';
import { AwsIdentitySchema, Dialect, Route } from '@weighbridge/contracts';
import { startBedrock } from '@weighbridge/mock-vendor/clouds';
import { describe, expect, it, onTestFinished } from 'vitest';
import { post } from './post.ts';
import { ALICE, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const REGION = 'eu-central-1';
const CLOUD_NAME = 'anthropic.claude-sonnet-4-5-20250929-v1:0';
const MODEL = `bedrock/${CLOUD_NAME}`;
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary/secret+access/key=' };
const HELLO = {
  model: MODEL,
  max_tokens: 500,
  messages: [{ role: 'user' as const, content: 'Grüße, "Waage" ☃ \\u2603' }],
};

const vendor = useVendor();

/** A proxy in front of Bedrock in one region. */
async function startScene(
  identity: object = KEYS,
  options: Partial<TestProxyOptions> = {},
  others: string[] = [],
) {
  const bedrock = await startBedrock({
    region: REGION,
    models: { [CLOUD_NAME]: { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' } },
    vendorUrl: vendor.url,
  });
  onTestFinished(() => bedrock.close());
  bedrock.accounts = [KEYS];
  const value = create(AwsIdentitySchema, { region: REGION, ...identity });
  const common = {
    provider: 'bedrock',
    dialect: Dialect.ANTHROPIC,
    routes: [Route.MESSAGES],
    credential: '',
  };
  const lines: string[] = [];
  const proxy = await startProxyForTest({
    vendorUrl: vendor.url,
    connectors: [
      { ...common, baseUrl: bedrock.url, identity: { case: 'aws', value } },
      ...others.map((baseUrl) => ({ ...common, baseUrl })),
    ],
    models: [{ id: MODEL, provider: 'bedrock', upstreamName: CLOUD_NAME, nanoPerToken: 3_000n }],
    maxRetries: 2,
    log: (line) => void lines.push(line),
    ...options,
  });
  return { bedrock, proxy, lines };
}

const anthropic = (proxy: TestProxy) => new Anthropic({ apiKey: ALICE, baseURL: proxy.url, maxRetries: 0 });
const charged = ({ events }: TestProxy) => events.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
const billed = () =>
  vendor.bill.reduce(
    (sum, { inputTokens, outputTokens }) => sum + BigInt(inputTokens + outputTokens) * 3_000n,
    0n,
  );

describe('Claude on Bedrock', () => {
  it("serves Anthropic's SDK, whole and streamed, and charges what is billed", async () => {
    const { bedrock, proxy } = await startScene();
    const client = anthropic(proxy);
    const whole = await client.messages.create(HELLO);
    expect(whole).toMatchObject({ type: 'message', role: 'assistant', stop_reason: 'end_turn' });
    const streamed = await client.messages.stream(HELLO).finalMessage();
    expect(streamed.content).toEqual(whole.content);
    expect(bedrock.invocations.map(({ path }) => path.split('/').at(-1))).toEqual([
      'invoke',
      'invoke-with-response-stream',
    ]);
    expect(bedrock.invocations[0]?.body).toEqual({
      anthropic_version: 'bedrock-2023-05-31',
      max_tokens: 500,
      messages: HELLO.messages,
    });
    expect([bedrock.refusals, proxy.events.length]).toEqual([[], 2]);
    expect([charged(proxy), proxy.events.map(({ details }) => details?.unpriced ?? [])]).toEqual([
      billed(),
      [[], []],
    ]);
  });

  it('serves callers of the other dialects by translation', async () => {
    const { bedrock, proxy } = await startScene();
    for (const stream of [false, true]) {
      const body = { model: MODEL, messages: HELLO.messages, stream };
      const answer = await post(proxy, '/v1/chat/completions', body);
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('choices')]);
    }
    expect(bedrock.refusals).toEqual([]);
    expect(charged(proxy)).toBe(billed());
  });

  it('gets the betas that it knows, in the body, whatever else the body has', async () => {
    const { bedrock, proxy } = await startScene();
    const betas =
      'claude-code-20250219,interleaved-thinking-2025-05-14, context-1m-2025-08-07,advanced-tool-use-2025-11-20,made-up';
    const body = `  {"stream" : true , "anthropic_version":"x","model":${JSON.stringify(MODEL)}, "max_tokens":9,"anthropic_beta":["y"],"messages":[{"role":"user","content":"{\\"model\\":1}"}]}`;
    const answer = await post(proxy, '/v1/messages?beta=true', body, { 'anthropic-beta': betas });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('text/event-stream'),
    ]);
    await answer.text();
    expect(bedrock.invocations[0]?.body).toEqual({
      anthropic_version: 'bedrock-2023-05-31',
      anthropic_beta: [
        'interleaved-thinking-2025-05-14',
        'context-1m-2025-08-07',
        'tool-search-tool-2025-10-19',
      ],
      max_tokens: 9,
      messages: [{ role: 'user', content: '{"model":1}' }],
    });
  });

  it('estimates a count of tokens, which InvokeModel does not give', async () => {
    const { bedrock, proxy } = await startScene();
    const { model, messages } = HELLO;
    const answer = await post(proxy, '/v1/messages/count_tokens', { model, messages });
    expect([answer.status, await answer.json()]).toEqual([200, { input_tokens: expect.any(Number) }]);
    expect([bedrock.invocations.length, bedrock.refusals]).toEqual([0, []]);
  });

  it('signs a body of several megabytes, and hundreds of requests at once', async () => {
    const { bedrock, proxy } = await startScene();
    const large = { ...HELLO, messages: [{ role: 'user', content: 'weigh ☃ '.repeat(400_000) }] };
    expect((await post(proxy, '/v1/messages', large)).status).toBe(200);
    const many = await Promise.all(Array.from({ length: 300 }, () => post(proxy, '/v1/messages', HELLO)));
    expect(many.filter(({ status }) => status !== 200)).toEqual([]);
    await Promise.all(many.map((answer) => answer.text()));
    expect(bedrock.refusals).toEqual([]);
  });

  it.each([
    ['exception', 'rate_limit_error'],
    ['checksum', ''],
    ['truncated', ''],
  ] as const)('ends a stream with an error if its frames end in %s', async (breaks, type) => {
    const { bedrock, proxy } = await startScene();
    bedrock.breaks = breaks;
    const answer = await post(proxy, '/v1/messages', { ...HELLO, stream: true });
    const text = await answer.text().catch((error) => String(error));
    expect(text).toContain('message_start');
    expect(text).not.toContain('message_stop');
    expect(text).toMatch(type === '' ? /error|terminated/ : new RegExp(`event: error\ndata: .*${type}`));
    await expect.poll(() => proxy.events.length).toBe(1);
    expect(charged(proxy)).toBeGreaterThan(0n);
  });
});

describe('an identity that AWS refuses', () => {
  it.each<[string, object, string]>([
    [
      'an unknown key',
      { accessKeyId: 'AKIDUNKNOWN00001', secretAccessKey: 'a' },
      'UnrecognizedClientException',
    ],
    ['a wrong secret', { ...KEYS, secretAccessKey: 'wrong' }, 'InvalidSignatureException'],
    ['another region', { ...KEYS, region: 'us-east-1' }, 'InvalidSignatureException'],
  ])(
    'is 502 connector_unauthorized, costs nothing, and is told to the operator: %s',
    async (_what, identity, code) => {
      const { bedrock, proxy, lines } = await startScene(identity);
      const answer = await post(proxy, '/v1/messages', HELLO);
      const text = await answer.text();
      expect([answer.status, JSON.parse(text).error.code]).toEqual([502, 'connector_unauthorized']);
      expect([bedrock.refusals, charged(proxy), proxy.unauthorized]).toEqual([[code], 0n, ['con_0: 403']]);
      const shown = [text, ...lines].join('\n');
      for (const secret of [KEYS.secretAccessKey, 'AKID']) expect(shown).not.toContain(secret);
    },
  );

  it('is so if its clock is off, and if its keys expired', async () => {
    const { bedrock, proxy } = await startScene(KEYS, { clockMs: () => Date.now() - 600_000 });
    expect((await post(proxy, '/v1/messages', HELLO)).status).toBe(502);
    expect([bedrock.refusals, proxy.unauthorized]).toEqual([['InvalidSignatureException'], ['con_0: 403']]);
    const session = { ...KEYS, sessionToken: 'of-the-session' };
    const scene = await startScene(session);
    scene.bedrock.accounts = [{ ...session, expiresAtMs: Date.now() }];
    expect((await post(scene.proxy, '/v1/messages', HELLO)).status).toBe(502);
    expect([scene.bedrock.refusals, scene.proxy.unauthorized]).toEqual([
      ['ExpiredTokenException'],
      ['con_0: 403'],
    ]);
  });

  it('leaves its requests to the next connector', async () => {
    const other = await startVendor((request, response) => {
      request.resume();
      response.end(
        '{"id":"of the other","type":"message","content":[],"usage":{"input_tokens":1,"output_tokens":1}}',
      );
    });
    const { proxy } = await startScene({ ...KEYS, secretAccessKey: 'wrong' }, {}, [other]);
    const answer = await post(proxy, '/v1/messages', HELLO);
    expect([answer.status, ((await answer.json()) as { id: string }).id, proxy.failovers]).toEqual([
      200,
      'of the other',
      ['con_0: credential'],
    ]);
  });

  it('is a clear 400 if the region lacks the model', async () => {
    const missing = {
      id: 'bedrock/anthropic.claude-9',
      provider: 'bedrock',
      upstreamName: 'anthropic.claude-9',
      nanoPerToken: 1n,
    };
    const { proxy } = await startScene(KEYS, { models: [missing] });
    const answer = await post(proxy, '/v1/messages', { ...HELLO, model: missing.id });
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      {
        type: 'error',
        error: { type: 'invalid_request_error', message: 'The provided model identifier is invalid.' },
      },
    ]);
    expect(proxy.unauthorized).toEqual([]);
  });
});
