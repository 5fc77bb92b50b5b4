import Anthropic from '@anthropic-ai/sdk';
import { create } from '@bufbuild/protobuf';
import { Dialect, GoogleIdentitySchema, Route } from '@weighbridge/contracts';
import { type GoogleTokensOptions, startGoogleTokens, startVertex } from '@weighbridge/mock-vendor/clouds';
import { describe, expect, it, onTestFinished } from 'vitest';
import { post } from './post.ts';
import { ALICE, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const PROJECT = 'acme-models';
const LOCATION = 'europe-west1';
const CLAUDE = 'vertex/claude-sonnet-4-5@20250929';
const GEMINI = 'vertex/gemini-2.5-pro';
const LLAMA = 'vertex/meta/llama-4-maas';
const MISSING = 'vertex/gemini-9';
const TEXT = 'Grüße, "Waage" ☃ \\u2603';
const HELLO = {
  model: CLAUDE,
  max_tokens: 500,
  messages: [{ role: 'user' as const, content: TEXT }],
};
const CONTENTS = { contents: [{ role: 'user', parts: [{ text: TEXT }] }] };

const vendor = useVendor({ traits: { strict: true } });

/** A proxy in front of Vertex AI in one location of one project. */
async function startScene(
  identity: object = {},
  options: Partial<TestProxyOptions> & { tokens?: Partial<GoogleTokensOptions> } = {},
  others: string[] = [],
) {
  const tokens = await startGoogleTokens({ project: PROJECT, ...options.tokens });
  onTestFinished(() => tokens.close());
  const vertex = await startVertex({
    project: PROJECT,
    location: LOCATION,
    models: {
      'anthropic/claude-sonnet-4-5@20250929': { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' },
      'google/gemini-2.5-pro': { sent: 'echo' },
      'meta/llama-4-maas': { sent: 'echo' },
    },
    vendorUrl: vendor.url,
    tokens,
  });
  onTestFinished(() => vertex.close());
  const value = create(GoogleIdentitySchema, {
    location: LOCATION,
    credentials: tokens.serviceAccount,
    allowPrivateAddress: true,
    ...identity,
  });
  const common = { provider: 'vertex', dialect: Dialect.OPENAI, credential: '' };
  const routes = [Route.MESSAGES, Route.GENERATE_CONTENT, Route.CHAT_COMPLETIONS];
  const connectors = [
    { ...common, routes, baseUrl: vertex.url, identity: { case: 'google' as const, value } },
    ...others.map((baseUrl) => ({ ...common, routes, baseUrl })),
  ];
  const lines: string[] = [];
  const proxy = await startProxyForTest({
    vendorUrl: vendor.url,
    connectors,
    models: [CLAUDE, GEMINI, LLAMA, MISSING].map((id) => ({
      id,
      provider: 'vertex',
      upstreamName: id.slice('vertex/'.length),
      nanoPerToken: 3_000n,
    })),
    maxRetries: 2,
    log: (line) => void lines.push(line),
    ...options,
  });
  return { tokens, vertex, proxy, lines, connectors };
}

const messages = (proxy: TestProxy, fields: object = {}, headers = {}) =>
  post(proxy, '/v1/messages', { ...HELLO, ...fields }, headers);
const generate = (proxy: TestProxy, method = 'generateContent', body: object = CONTENTS, model = GEMINI) =>
  post(proxy, `/v1beta/models/${model}:${method}`, body);
const chat = (proxy: TestProxy, model: string, fields: object = {}) =>
  post(proxy, '/v1/chat/completions', { model, messages: HELLO.messages, ...fields });
const charged = ({ events }: TestProxy) => events.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
const billed = () =>
  vendor.bill.reduce(
    (sum, { inputTokens, outputTokens }) => sum + BigInt(inputTokens + outputTokens) * 3_000n,
    0n,
  );
const pathOf = (publisher: string, call: string) =>
  `/v1/projects/${PROJECT}/locations/${LOCATION}/publishers/${publisher}/models/${call}`;

describe('Claude on Vertex AI', () => {
  it("serves Anthropic's SDK, whole, streamed and counted, and charges what is billed", async () => {
    const { tokens, vertex, proxy } = await startScene();
    const client = new Anthropic({ apiKey: ALICE, baseURL: proxy.url, maxRetries: 0 });
    const whole = await client.messages.create(HELLO);
    expect(whole).toMatchObject({ type: 'message', role: 'assistant', stop_reason: 'end_turn' });
    expect((await client.messages.stream(HELLO).finalMessage()).content).toEqual(whole.content);
    const { model, messages } = HELLO;
    expect(await client.messages.countTokens({ model, messages })).toEqual({
      input_tokens: expect.any(Number),
    });
    expect(vertex.calls.map(({ path }) => path)).toEqual([
      pathOf('anthropic', 'claude-sonnet-4-5@20250929:rawPredict'),
      pathOf('anthropic', 'claude-sonnet-4-5@20250929:streamRawPredict'),
      pathOf('anthropic', 'count-tokens:rawPredict'),
    ]);
    expect(vertex.calls[0]?.body).toEqual({
      anthropic_version: expect.any(String),
      max_tokens: 500,
      messages: HELLO.messages,
    });
    expect([vertex.refusals, tokens.answers, proxy.events.length]).toEqual([[], ['token 200'], 2]);
    expect(charged(proxy)).toBe(billed());
  });

  it('gets the betas that it knows, and no member that it refuses, whatever the body has', async () => {
    const { vertex, proxy } = await startScene();
    const betas =
      'claude-code-20250219,effort-2025-11-24, context-1m-2025-08-07,advanced-tool-use-2025-11-20,made-up';
    const body = `  {"stream" : true , "anthropic_version":"x","model":${JSON.stringify(CLAUDE)}, "max_tokens":9,"anthropic_beta":["y"],"messages":[{"role":"user","content":"{\\"model\\":1}"}]}`;
    const headers = { 'anthropic-beta': betas, 'anthropic-version': '2023-06-01' };
    const answer = await post(proxy, '/v1/messages?beta=true', body, headers);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('text/event-stream'),
    ]);
    await answer.text();
    const [call] = vertex.calls;
    expect(call?.body).toEqual({
      anthropic_version: 'vertex-2023-10-16',
      stream: true,
      max_tokens: 9,
      messages: [{ role: 'user', content: '{"model":1}' }],
    });
    expect(call?.headers['anthropic-beta']).toBe('context-1m-2025-08-07,tool-search-tool-2025-10-19');
    expect(call?.headers['anthropic-version']).toBeUndefined();
  });
});

describe('Gemini and others on Vertex AI', () => {
  it("serve Gemini's own operations, and charge what is billed", async () => {
    const { vertex, proxy } = await startScene();
    const whole = (await (await generate(proxy)).json()) as { candidates: object[] };
    expect(whole.candidates).toHaveLength(1);
    const streamed = await generate(proxy, 'streamGenerateContent?alt=sse');
    expect([streamed.status, await streamed.text()]).toEqual([200, expect.stringContaining('usageMetadata')]);
    const listed = (await (await generate(proxy, 'streamGenerateContent')).json()) as object[];
    expect(listed.length).toBeGreaterThan(0);
    const counted = { generateContentRequest: { model: `models/${GEMINI}`, ...CONTENTS } };
    for (const body of [CONTENTS, counted]) {
      expect(await (await generate(proxy, 'countTokens', body)).json()).toMatchObject({
        totalTokens: expect.any(Number),
      });
    }
    expect(vertex.calls.map(({ path }) => path)).toEqual([
      pathOf('google', 'gemini-2.5-pro:generateContent'),
      pathOf('google', 'gemini-2.5-pro:streamGenerateContent?alt=sse'),
      pathOf('google', 'gemini-2.5-pro:streamGenerateContent?alt=sse'),
      pathOf('google', 'gemini-2.5-pro:countTokens'),
      pathOf('google', 'gemini-2.5-pro:countTokens'),
    ]);
    expect([vertex.refusals, proxy.events.length]).toEqual([[], 3]);
    expect(charged(proxy)).toBe(billed());
  });

  it('serve callers of every dialect', async () => {
    const { vertex, proxy } = await startScene();
    for (const stream of [false, true]) {
      for (const model of [CLAUDE, GEMINI, LLAMA]) {
        const answers = await Promise.all([
          chat(proxy, model, { stream }),
          post(proxy, '/v1/responses', { model, input: TEXT, stream, store: false }),
          messages(proxy, { model, stream }),
          generate(proxy, stream ? 'streamGenerateContent?alt=sse' : 'generateContent', CONTENTS, model),
        ]);
        const texts = await Promise.all(answers.map((answer) => answer.text()));
        expect([
          model,
          answers.map(({ status }) => status),
          texts.map((text) => /"error":\{/.test(text)),
        ]).toEqual([model, [200, 200, 200, 200], [false, false, false, false]]);
      }
    }
    expect(vertex.refusals).toEqual([]);
    const compatible = vertex.calls.filter(({ path }) =>
      path.endsWith('/endpoints/openapi/chat/completions'),
    );
    expect(compatible.map(({ body }) => body.model)).toEqual(Array(8).fill('meta/llama-4-maas'));
    expect([charged(proxy), proxy.events.length]).toEqual([billed(), 24]);
  });

  it('are a clear 404 if the location lacks the model, in which no project shows', async () => {
    const { proxy } = await startScene();
    for (const answer of [
      await generate(proxy, 'generateContent', CONTENTS, MISSING),
      await chat(proxy, MISSING),
    ]) {
      const text = await answer.text();
      expect([answer.status, text]).toEqual([404, expect.stringContaining('was not found')]);
      expect(text).not.toContain(PROJECT);
    }
    expect([proxy.unauthorized, charged(proxy)]).toEqual([[], 0n]);
  });

  const FORBIDDEN = { contents: [{ parts: [{ text: 'a' }] }] };
  it.each<[string, (proxy: TestProxy) => Promise<Response>, number, string]>([
    ['a body', (proxy) => generate(proxy, 'generateContent', FORBIDDEN), 400, 'valid role: user, model'],
    [
      'the body of a stream',
      (proxy) => generate(proxy, 'streamGenerateContent?alt=sse', FORBIDDEN),
      400,
      'valid role: user, model',
    ],
    [
      'a translated body',
      (proxy) => {
        vendor.script({ 'x-mock-status': '400' });
        return chat(proxy, GEMINI);
      },
      400,
      'x-mock-status',
    ],
    ['a body for Claude', (proxy) => messages(proxy, { made_up: 1 }), 400, 'made_up'],
    ['a body for the compatible route', (proxy) => chat(proxy, LLAMA, { made_up: 1 }), 400, 'made_up'],
    [
      'embeddings',
      (proxy) => post(proxy, '/v1/embeddings', { model: GEMINI, input: 'a' }),
      400,
      'embeddings',
    ],
    [
      "Gemini's embeddings",
      (proxy) => generate(proxy, 'embedContent', { content: { parts: [{ text: 'a' }] } }),
      400,
      'embedContent',
    ],
  ])(
    'refuse %s: a clear 4xx, which costs nothing and blames no credential',
    async (_what, ask, status, says) => {
      const { proxy } = await startScene();
      onTestFinished(() => vendor.script({}));
      const answer = await ask(proxy);
      const text = await answer.text();
      expect([answer.status, JSON.parse(text)]).toMatchObject([
        status,
        { error: { message: expect.stringContaining(says) } },
      ]);
      expect(text).not.toContain(PROJECT);
      expect([proxy.unauthorized, proxy.suspected, charged(proxy)]).toEqual([[], [], 0n]);
    },
  );
});

describe('tokens of Google', () => {
  it.each<[string, (tokens: { mode: string; isRevoked: boolean }) => void, object]>([
    ['whose key was deleted', (tokens) => void Object.assign(tokens, { isRevoked: true }), {}],
    ['that are no key', () => {}, { credentials: '{"type":"service_account","private_key":"canary"}' }],
    ['of another kind', () => {}, { credentials: '{"type":"external_account","token_url":"http://a"}' }],
    ['that no one issues', (tokens) => void Object.assign(tokens, { mode: 'down' }), {}],
    ['from an address that is not public', () => {}, { allowPrivateAddress: false }],
  ])(
    '%s are 502 connector_unauthorized, cost nothing, and the next connector answers',
    async (_what, spoil, identity) => {
      const { tokens, proxy, lines } = await startScene(identity);
      spoil(tokens);
      for (const answer of [await messages(proxy), await generate(proxy)]) {
        const text = await answer.text();
        expect([answer.status, text]).toEqual([502, expect.stringContaining('no access token')]);
      }
      expect([charged(proxy), vendor.bill, proxy.tokenFailures.length > 0]).toEqual([0n, [], true]);
      for (const secret of ['PRIVATE KEY', 'canary', 'ya29.']) expect(lines.join('\n')).not.toContain(secret);
      const other = await startVendor((request, response) => {
        request.resume();
        response.end(
          '{"id":"of the other","type":"message","content":[],"usage":{"input_tokens":1,"output_tokens":1}}',
        );
      });
      const scene = await startScene(identity, {}, [other]);
      spoil(scene.tokens);
      // It is Claude's dialect that this account has for the model.
      const connectors = scene.connectors.map((one) =>
        'identity' in one ? one : { ...one, dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
      );
      scene.proxy.publish({ connectors });
      const answer = await messages(scene.proxy);
      expect([answer.status, ((await answer.json()) as { id: string }).id]).toEqual([200, 'of the other']);
      expect(scene.proxy.failovers).toEqual([expect.stringMatching(/^con_0: /)]);
    },
  );

  it('are refused by a clock that is off: 502, and it says what to check', async () => {
    const { proxy } = await startScene({}, { tokens: { nowMs: () => Date.now() + 4_000_000 } });
    expect((await messages(proxy)).status).toBe(502);
    expect(proxy.tokenFailures[0]?.error.message).toMatch(/"invalid_grant".*clock of the proxy/);
  });

  it('that Vertex refuses are 502 in which nothing of the account shows', async () => {
    const { tokens, vertex, proxy, lines } = await startScene();
    vertex.isForbidden = true;
    for (const answer of [await messages(proxy), await generate(proxy), await chat(proxy, LLAMA)]) {
      const text = await answer.text();
      expect([answer.status, text]).toEqual([502, expect.stringContaining('connector_unauthorized')]);
      for (const secret of ['ya29.', PROJECT]) expect(text).not.toContain(secret);
    }
    tokens.revokeTokens();
    vertex.isForbidden = false;
    const refused = await messages(proxy);
    expect([refused.status, await refused.text()]).toEqual([
      502,
      expect.stringContaining('connector_unauthorized'),
    ]);
    expect(lines.join('\n')).not.toContain('ya29.');
  });
});
