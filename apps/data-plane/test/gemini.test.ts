import { ApiError, FunctionCallingConfigMode, GoogleGenAI, Type } from '@google/genai';
import { eventually } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { ALICE, HARD, ONE_MODEL, SPENT, settled } from './proxy.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const GEMINI = [
  { id: 'gemini/gemini-2.5-pro', provider: 'gemini', upstreamName: 'gemini-2.5-pro', nanoPerToken: 7n },
];
const proxy = useProxy(vendor, { models: GEMINI });

function client(apiKey = ALICE, headers: Record<string, string> = {}): GoogleGenAI {
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl: proxy.url, headers } });
}

const MODEL = 'mock/echo';
const hello = { model: MODEL, contents: 'Hello there, weighbridge' };

/** The last settled attempt, and the vendor's bill for it. */
function accounts() {
  const [event] = settled(proxy.events);
  const bill = vendor.bill.at(-1);
  return {
    outcome: event?.outcome,
    estimated: event?.estimated,
    charged: [event?.usage.input, event?.usage.cacheRead, event?.usage.output],
    billed: bill && [bill.inputTokens - bill.cachedInputTokens, bill.cachedInputTokens, bill.outputTokens],
  };
}

function expectBilled() {
  const { outcome, estimated, charged, billed } = accounts();
  expect({ outcome, estimated, charged }).toEqual({ outcome: 'SUCCESS', estimated: false, charged: billed });
}

describe('the SDK @google/genai', () => {
  it('generates; the ledger has what the vendor bills', async () => {
    const answer = await client(ALICE, {
      'x-mock-input-tokens': '1000',
      'x-mock-cached-tokens': '300',
      'x-mock-reasoning-tokens': '40',
    }).models.generateContent({
      ...hello,
      config: { systemInstruction: 'Repeat.', temperature: 0, maxOutputTokens: 100 },
    });
    expect(answer.text).toBe('Hello there, weighbridge');
    expect(answer.usageMetadata?.totalTokenCount).toBe(1046);
    expectBilled();
    const [request] = vendor.requests;
    expect(request?.path).toBe('/v1/models/echo:generateContent');
    expect(request?.headers['x-goog-api-key']).toBe('vendor-secret');
    expect(request?.headers).not.toHaveProperty('authorization');
    expect(JSON.stringify(request?.rawHeaders)).not.toContain(ALICE);
    expect(proxy.events[0]?.responseId).toBe(answer.responseId);
  });

  it('streams; the last chunk counts', async () => {
    const stream = await client(ALICE, {
      'x-mock-reasoning-tokens': '9',
      'x-mock-split': '13',
    }).models.generateContentStream(hello);
    let text = '';
    let reason: unknown;
    for await (const chunk of stream) {
      text += chunk.text ?? '';
      reason = chunk.candidates?.[0]?.finishReason;
    }
    expect([text, reason]).toEqual(['Hello there, weighbridge', 'STOP']);
    expectBilled();
    expect(vendor.requests[0]?.path).toBe('/v1/models/echo:streamGenerateContent?alt=sse');
  });

  it('calls a tool, and continues with its result, thought signature included', async () => {
    const config = {
      tools: [
        {
          functionDeclarations: [
            {
              name: 'weather',
              parameters: {
                type: Type.OBJECT,
                properties: { city: { type: Type.STRING } },
                required: ['city'],
              },
            },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
    };
    const first = await client().models.generateContent({ ...hello, config });
    const [call] = first.functionCalls ?? [];
    expect(call?.name).toBe('weather');
    const content = first.candidates?.[0]?.content;
    expect(content?.parts?.[0]?.thoughtSignature).toBe('bW9jaw==');
    const { toolConfig: _forced, ...rest } = config;
    const second = await client().models.generateContent({
      model: MODEL,
      contents: [
        { role: 'user', parts: [{ text: 'Weather?' }] },
        ...(content ? [content] : []),
        { role: 'user', parts: [{ functionResponse: { name: 'weather', response: { output: 'dry' } } }] },
      ],
      config: rest,
    });
    expect(second.text).toContain('dry');
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'SUCCESS' }, { outcome: 'SUCCESS' }]);
    expect(vendor.requests[1]?.body.toString()).toContain('bW9jaw==');
  });

  it('counts tokens for nothing', async () => {
    const counted = await client().models.countTokens(hello);
    expect(counted.totalTokens).toBeGreaterThan(0);
    expect(proxy.events).toEqual([]);
  });

  it('embeds one text and several', async () => {
    const { embeddings } = await client().models.embedContent({
      model: MODEL,
      contents: ['one', 'two words'],
    });
    expect(embeddings).toHaveLength(2);
    expectBilled();
    expect(vendor.requests[0]?.body.toString()).not.toContain('mock/echo');
  });

  it('lists and retrieves models in its shape', async () => {
    const names: (string | undefined)[] = [];
    const pager = await client().models.list({ config: { pageSize: 1, queryBase: true } });
    for await (const model of pager) names.push(model.name);
    expect(names).toEqual(['models/mock/echo', 'models/mock/gpt/with/slashes']);
    expect(await client().models.get({ model: MODEL })).toMatchObject({ name: 'models/mock/echo' });
  });

  it('throws its ApiError, with what to do', async () => {
    const failing = (key: string, model = MODEL, headers = {}) =>
      client(key, headers)
        .models.generateContent({ ...hello, model })
        .then(
          () => raiseNothing(),
          (error: unknown) => {
            expect(error).toBeInstanceOf(ApiError);
            const { status, message } = error as ApiError;
            return [status, JSON.parse(message).error];
          },
        );
    expect(await failing('sk-svc-wrong')).toEqual([
      401,
      expect.objectContaining({ status: 'UNAUTHENTICATED' }),
    ]);
    expect(await failing(SPENT)).toMatchObject([
      429,
      {
        status: 'RESOURCE_EXHAUSTED',
        details: [{ reason: 'BUDGET_EXHAUSTED', metadata: { code: 'budget_exhausted' } }, {}],
      },
    ]);
    expect(await failing(ONE_MODEL, 'mock/gpt/with/slashes')).toMatchObject([
      403,
      { status: 'PERMISSION_DENIED' },
    ]);
    expect(await failing(ALICE, 'mock/nothing')).toMatchObject([404, { status: 'NOT_FOUND' }]);
    expect(await failing(ALICE, MODEL, { 'x-mock-status': '503' })).toMatchObject([
      503,
      { status: 'UNAVAILABLE' },
    ]);
  });
});

function raiseNothing(): never {
  throw new Error('it did not fail');
}

const BODY = { contents: [{ parts: [{ text: 'Hello there' }] }] };

function post(
  path: string,
  body: unknown = BODY,
  headers: Record<string, string> = { 'x-goog-api-key': ALICE },
  url = proxy.url,
) {
  return fetch(url + path, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });
}

async function errorOf(response: Response) {
  const { error } = (await response.json()) as { error: { code: number; details: { reason: string }[] } };
  return [response.status, error.details[0]?.reason];
}

describe('the routes of Gemini', () => {
  it('are also below /v1, and take names plain and encoded', async () => {
    const paths = [
      '/v1beta/models/mock/echo:generateContent',
      '/v1/models/mock/echo:generateContent',
      '/v1beta/models/mock%2Fecho:generateContent',
      '/v1/models/mock%2Fecho%3AgenerateContent:generateContent',
    ];
    const statuses = await Promise.all(paths.map(async (path) => (await post(path)).status));
    expect(statuses).toEqual([200, 200, 200, 404]);
  });

  it("reach a bare name at Google's own API beside the compatible one", async () => {
    const compatible = vendor.url.replace('/v1', '/v1beta/openai');
    const own = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ provider: 'gemini', baseUrl: compatible }],
      models: GEMINI,
    });
    const answer = await fetch(`${own.url}/v1beta/models/gemini-2.5-pro:generateContent?key=${ALICE}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(BODY),
    });
    expect([answer.status, answer.headers.get('x-svc-model')]).toEqual([200, 'gemini/gemini-2.5-pro']);
    const chat = await fetch(`${own.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'gemini/gemini-2.5-pro', messages: [{ role: 'user', content: 'x' }] }),
    });
    expect(chat.status).toBe(200);
    expect(vendor.requests.map(({ path }) => path)).toEqual([
      '/v1beta/models/gemini-2.5-pro:generateContent',
      '/v1beta/openai/chat/completions',
    ]);
    const listed = await fetch(`${own.url}/v1/models`, { headers: { 'x-goog-api-key': ALICE } });
    expect(await listed.json()).toMatchObject({ models: [{ name: 'models/gemini-2.5-pro' }] });
  });

  it('stream one JSON array without alt=sse, whatever the pieces and the encoding', async () => {
    for (const script of [{}, { 'x-mock-split': '5' }, { 'x-mock-encoding': 'gzip' }] as Record<
      string,
      string
    >[]) {
      const answer = await post('/v1beta/models/mock/echo:streamGenerateContent', BODY, {
        'x-goog-api-key': ALICE,
        ...script,
      });
      expect(answer.headers.get('content-type')).toContain('application/json');
      const chunks = (await answer.json()) as {
        candidates: { content: { parts: { text: string }[] }; finishReason?: string }[];
      }[];
      const text = chunks.map(({ candidates: [one] }) => one?.content.parts[0]?.text ?? '').join('');
      expect([text, chunks.at(-1)?.candidates[0]?.finishReason]).toEqual(['Hello there', 'STOP']);
    }
    const cut = await post('/v1beta/models/mock/echo:streamGenerateContent', BODY, {
      'x-goog-api-key': ALICE,
      'x-mock-reset': 'mid',
      'x-mock-chunks': '4',
    });
    const items = (await cut.json()) as { error?: { status: string } }[];
    expect(items.at(-1)?.error?.status).toBe('UNAVAILABLE');
  });

  it('end a stream that breaks off with an error, and say nothing that was not sent', async () => {
    const cut = await post('/v1beta/models/mock/echo:streamGenerateContent?alt=sse', BODY, {
      'x-goog-api-key': ALICE,
      'x-mock-sse-error': 'true',
      'x-mock-chunks': '4',
    });
    expect((await cut.text()).trim().split('\n').at(-1)).toMatch(/^data: \{"error":\{"code":500/);
    await eventually(() => expect(settled(proxy.events)).toMatchObject([{ outcome: 'UPSTREAM_ERROR' }]));
  });

  it('say what they refuse', async () => {
    const at = '/v1beta/models/mock/echo:generateContent';
    const nested = { contents: BODY.contents, model: 'models/mock/gpt/with/slashes' };
    const both = { ...BODY, generationConfig: { maxOutputTokens: 5, max_output_tokens: 500 } };
    const cases = [
      [await post('/v1beta/models/mock/echo:generateEverything'), 404, 'ROUTE_NOT_SERVED'],
      [await post('/v1beta/tunedModels/mine:generateContent'), 404, 'ROUTE_NOT_SERVED'],
      [await fetch(proxy.url + at, { headers: { 'x-goog-api-key': ALICE } }), 405, 'METHOD_NOT_ALLOWED'],
      [await post(at, '{'), 400, 'MALFORMED_JSON'],
      [await post(at, nested), 400, 'MODEL_MISMATCH'],
      [await post(at, both), 400, 'DUPLICATE_FIELD'],
      [await post(`${at}?fields=candidates`), 400, 'UNSUPPORTED_PARAMETER'],
      [await post(`${at}?alt=media`), 400, 'UNSUPPORTED_PARAMETER'],
      [await post('/v1beta/models/gemini-2.5-pro:generateContent'), 404, 'MODEL_NOT_FOUND'],
      [await post('/v1beta/models/other/model:generateContent'), 404, 'MODEL_NOT_FOUND'],
      [await post(at, BODY, {}), 401, 'MISSING_API_KEY'],
      [await post(at, BODY, { 'x-goog-api-key': 'AIzaSy' }), 401, 'INVALID_API_KEY'],
    ] as const;
    for (const [response, status, reason] of cases) expect(await errorOf(response)).toEqual([status, reason]);
    expect(proxy.events).toEqual([]);
  });

  it("hide the vendor's refusal of the connector's key, which Google answers with 400", async () => {
    const broken = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ credential: 'old-credential' }],
    });
    const answer = await fetch(`${broken.url}/v1beta/models/mock/echo:generateContent?key=${ALICE}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(BODY),
    });
    expect(await errorOf(answer)).toEqual([502, 'CONNECTOR_UNAUTHORIZED']);
    expect(broken.unauthorized).toEqual(['con_0: 400']);
    const unknown = await post('/v1beta/models/mock/echo:generateContent', { ...BODY, unheardOf: 1 });
    expect([unknown.status, await unknown.text()]).toEqual([400, expect.stringContaining('Unknown name')]);
  });

  it('neither log nor forward a key in the query', async () => {
    const lines: string[] = [];
    const { url } = await startProxyForTest({
      vendorUrl: vendor.url,
      log: (line) => lines.push(line),
      models: GEMINI,
    });
    const paths = ['generateContent?', 'streamGenerateContent?alt=sse&', 'countTokens?', 'nothing?'];
    for (const path of paths)
      await (await post(`/v1beta/models/mock/echo:${path}key=${ALICE}`, BODY, {}, url)).text();
    await eventually(() => expect(lines.length).toBeGreaterThanOrEqual(paths.length));
    expect(lines.join('\n')).not.toContain(ALICE);
    const sent = vendor.requests.map(({ path, rawHeaders }) => `${path} ${rawHeaders}`);
    expect(sent).toHaveLength(3);
    expect(sent.join('\n')).not.toMatch(new RegExp(`${ALICE}|key=`));
  });
});

describe('a hard budget', () => {
  const generous = { headroomNanoUsd: () => 10n ** 12n, models: GEMINI };
  const ask = async (url: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(`${url}/v1beta/models/mock/echo:generateContent`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'x-goog-api-key': HARD, 'content-type': 'application/json', ...headers },
    });
  const sent = () => JSON.parse(vendor.requests.at(-1)?.body.toString() ?? '{}');

  it('sets the output limit wherever it goes, and counts every candidate', async () => {
    const { url, events } = await startProxyForTest({ vendorUrl: vendor.url, ...generous });
    const bodies = [
      BODY,
      { generationConfig: {}, ...BODY },
      { generation_config: { temperature: 0 }, ...BODY },
      { ...BODY, generationConfig: { max_output_tokens: 3, candidateCount: 2 } },
    ];
    for (const body of bodies) expect((await ask(url, body)).status).toBe(200);
    const limits = vendor.requests.map(({ body }) => {
      const { generationConfig, generation_config: other } = JSON.parse(body.toString());
      const { maxOutputTokens, max_output_tokens: limit } = generationConfig ?? other;
      return maxOutputTokens ?? limit;
    });
    expect(limits).toEqual([32_768, 32_768, 32_768, 3]);
    expect(settled(events).at(-1)?.usage.output).toBe(vendor.bill.at(-1)?.outputTokens);
  });

  it('removes the tools that Google runs, and keeps the others', async () => {
    const { url } = await startProxyForTest({ vendorUrl: vendor.url, ...generous });
    const declared = { functionDeclarations: [{ name: 'f' }] };
    const mixed = await ask(url, {
      ...BODY,
      tools: [{ googleSearch: {}, ...declared }, { code_execution: {} }],
    });
    expect([mixed.status, mixed.headers.get('x-svc-dropped')]).toEqual([
      200,
      'tools[0].googleSearch google_search, tools[1].code_execution code_execution',
    ]);
    expect(sent().tools).toEqual([declared]);
    const only = await ask(url, { tools: [{ urlContext: {} }], toolConfig: {}, ...BODY });
    expect(only.status).toBe(200);
    expect(sent()).toEqual({ ...BODY, generationConfig: { maxOutputTokens: 32_768 } });
  });

  it('refuses by name what nothing bounds', async () => {
    const { url } = await startProxyForTest({ vendorUrl: vendor.url, ...generous });
    const part = (one: object) => ({ contents: [{ parts: [one] }] });
    const cases = [
      [part({ inlineData: { mimeType: 'image/png', data: 'eA==' } }), 'contents[0].parts[0].inlineData'],
      [part({ file_data: { file_uri: 'https://example.com/a.pdf' } }), 'contents[0].parts[0].file_data'],
      [{ ...BODY, cachedContent: 'cachedContents/a' }, 'cachedContent'],
      [
        { ...BODY, generationConfig: { responseModalities: ['IMAGE'] } },
        'generationConfig.responseModalities[0]',
      ],
      [{ ...BODY, generationConfig: { maxOutputTokens: '100' } }, 'generationConfig.maxOutputTokens'],
      [{ ...BODY, unheardOf: 1 }, 'unheardOf'],
      [{ ...BODY, MaxOutputTokens: 1 }, 'MaxOutputTokens'],
    ] as const;
    for (const [body, field] of cases) {
      const answer = await ask(url, body);
      const { error } = (await answer.json()) as { error: { details: { metadata?: object }[] } };
      expect([answer.status, error.details[0]?.metadata]).toMatchObject([
        400,
        { code: 'not_allowed_in_hard_mode', param: field },
      ]);
    }
    expect(vendor.bill).toEqual([]);
  });
});
