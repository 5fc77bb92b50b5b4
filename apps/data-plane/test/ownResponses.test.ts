import { createInProcessBucket, type KeyValueBucket } from '@weighbridge/bus';
import { Dialect, Route } from '@weighbridge/contracts';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { responseBucketSettings } from '../src/translation/responseStore.ts';
import { post } from './post.ts';
import { ALICE, BOB } from './proxy.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const written = new Map<string, Uint8Array>();
/** In the memory of the test, which sees what is stored. */
function seenBucket(): KeyValueBucket {
  const bucket = createInProcessBucket(responseBucketSettings(1));
  return {
    ...bucket,
    put: async (key, value) => {
      written.set(key, value);
      await bucket.put(key, value);
    },
  };
}
const OPTIONS = {
  connectors: [
    { id: 'con_openai', provider: 'openai', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES] },
    { id: 'con_anthropic', provider: 'anthropic', dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
    { id: 'con_gemini', provider: 'gemini', routes: [Route.GENERATE_CONTENT] },
  ],
  models: ['openai/gpt-5', 'anthropic/claude', 'gemini/gemini-2.5-pro'].map((id) => ({
    id,
    nanoPerToken: 7n,
  })),
};
const proxy = useProxy(vendor, { ...OPTIONS, responseBucket: seenBucket() });

const client = (key = ALICE) => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0 });
const CLAUDE = 'anthropic/claude';

async function answered(body: OpenAI.Responses.ResponseCreateParamsNonStreaming, stream: boolean) {
  return stream
    ? await client()
        .responses.stream(body as { model: string })
        .finalResponse()
    : await client().responses.create(body);
}

const lastSent = () => JSON.parse(String(vendor.requests.at(-1)?.body));

describe.each([false, true])('a response of a vendor that stores none; streamed: %s', (stream) => {
  it('is continued by its id, at that vendor and at others, however often', async () => {
    const first = await answered({ model: CLAUDE, input: 'My name is Ada.' }, stream);
    expect(first).toMatchObject({
      id: expect.stringMatching(/^resp_wb_/),
      store: true,
      previous_response_id: null,
    });
    const body = { model: CLAUDE, input: [{ role: 'user' as const, content: 'Who am I?' }] };
    const second = await answered({ ...body, previous_response_id: first.id }, stream);
    expect(second.previous_response_id).toBe(first.id);
    expect(lastSent().messages.map(({ role }: { role: string }) => role)).toEqual([
      'user',
      'assistant',
      'user',
    ]);
    const third = { input: 'And now?', previous_response_id: second.id };
    await answered({ ...third, model: 'gemini/gemini-2.5-pro' }, stream);
    expect(lastSent().contents).toHaveLength(5);
    await answered({ ...third, model: 'openai/gpt-5' }, stream);
    expect(lastSent()).not.toHaveProperty('previous_response_id');
    expect(lastSent().input.map(({ content }: { content: unknown }) => content)).toEqual(
      expect.arrayContaining(['My name is Ada.', 'Who am I?', 'And now?']),
    );
  });

  it('goes on with the results of its calls', async () => {
    const tools = [
      { type: 'function' as const, name: 'weather', parameters: { type: 'object' }, strict: false },
    ];
    const first = await answered({ model: CLAUDE, input: 'Call weather for me', tools }, stream);
    const call = first.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))[0];
    const output = { type: 'function_call_output' as const, call_id: call?.call_id ?? '', output: 'sunny' };
    await answered({ model: CLAUDE, tools, input: [output], previous_response_id: first.id }, stream);
    const [, said, results] = lastSent().messages;
    expect(said.content.at(-1)).toMatchObject({ type: 'tool_use', id: call?.call_id });
    expect(results.content[0]).toMatchObject({ type: 'tool_result', tool_use_id: call?.call_id });
  });
});

describe('the store', () => {
  it('reads and deletes a response for its owner', async () => {
    const made = await client().responses.create({ model: CLAUDE, input: 'One' });
    const next = await client().responses.create({
      model: CLAUDE,
      input: 'Two',
      previous_response_id: made.id,
    });
    const read = await client().responses.retrieve(next.id);
    expect(read).toMatchObject({ id: next.id, status: 'completed', output: next.output });
    const items = await client().responses.inputItems.list(next.id, { order: 'asc', limit: 2 });
    expect(items.data).toHaveLength(2);
    expect(items.has_more).toBe(true);
    await expect(client().responses.cancel(next.id)).rejects.toMatchObject({ status: 400 });
    await client().responses.delete(next.id);
    await expect(client().responses.retrieve(next.id)).rejects.toMatchObject({ status: 404 });
    expect(vendor.requests).toHaveLength(2);
  });

  it('is of no use to another principal, which can’t tell what exists', async () => {
    const { id } = await client().responses.create({ model: CLAUDE, input: 'secret words' });
    const errors = [];
    for (const one of [id, 'resp_wb_00000000']) {
      const bob = client(BOB).responses;
      const asked = { model: CLAUDE, input: 'x', previous_response_id: one };
      for (const call of [() => bob.retrieve(one), () => bob.delete(one), () => bob.create(asked)]) {
        const error = (await call().then(
          () => undefined,
          (thrown: unknown) => thrown,
        )) as { status: number; code: string } | undefined;
        errors.push(`${error?.status} ${error?.code}`);
      }
    }
    expect(new Set(errors)).toEqual(new Set(['404 response_not_found']));
    expect(await client().responses.retrieve(id)).toMatchObject({ id });
  });

  it('keeps nothing that can be read there, nor anything of a caller that forbids it', async () => {
    written.clear();
    const { id } = await client().responses.create({ model: CLAUDE, input: 'legible words' });
    const stored = [...written].map(([key, value]) => key + Buffer.from(value).toString('latin1')).join('');
    expect(stored).not.toBe('');
    expect(stored).not.toMatch(/legible|alice/i);
    expect(stored).not.toContain(id);
    written.clear();
    const forbidden = await client().responses.create({ model: CLAUDE, input: 'x', store: false });
    expect([
      written.size,
      'store' in forbidden && forbidden.store,
      forbidden.id.startsWith('resp_wb_'),
    ]).toEqual([0, false, false]);
  });

  it('stores no answer that failed, and answers all the same if it can’t be written', async () => {
    written.clear();
    const failed = { 'x-mock-sse-error': 'true', 'x-mock-output-tokens': '200' };
    const asked = { model: CLAUDE, input: 'x', stream: true };
    expect(await (await post(proxy, '/v1/responses', asked, failed)).text()).toContain('response.failed');
    expect(written.size).toBe(0);
    const away: KeyValueBucket = {
      ...createInProcessBucket(responseBucketSettings(1)),
      get: async () => Promise.reject(new Error('away')),
      put: async () => Promise.reject(new Error('away')),
    };
    const other = await startProxyForTest({ vendorUrl: vendor.url, ...OPTIONS, responseBucket: away });
    const response = await post(other, '/v1/responses', { model: CLAUDE, input: 'x' });
    expect(response.status).toBe(200);
    const { id } = (await response.json()) as { id: string };
    const next = await post(other, '/v1/responses', { model: CLAUDE, input: 'y', previous_response_id: id });
    expect([next.status, ((await next.json()) as { error: { code: string } }).error.code]).toEqual([
      503,
      'response_store_unreachable',
    ]);
  });

  it('keeps a conversation of many megabytes in pieces', async () => {
    const input = Array.from({ length: 60_000 }, () => Math.random().toString(36)).join(' ');
    const { id } = await client().responses.create({ model: CLAUDE, input });
    await client().responses.create({ model: CLAUDE, input: 'x', previous_response_id: id });
    expect(String(vendor.requests.at(-1)?.body)).toContain(input.slice(-1_000));
  });

  it('says so where a conversation is too large to be stored, before it is sent', async () => {
    const large = 'weigh '.repeat(2_900_000);
    const told = async (body: object, key = ALICE) => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await post(proxy, '/v1/responses', { model: CLAUDE, ...body }, headers);
      const { id, store, previous_response_id } = (await response.json()) as OpenAI.Responses.Response & {
        store: boolean;
      };
      const dropped = response.headers.get('x-svc-dropped') ?? '';
      return [
        response.status,
        id.startsWith('resp_wb_'),
        store,
        previous_response_id,
        /\bstore dropped/.test(dropped),
      ];
    };
    expect(await told({ input: large })).toEqual([200, false, false, null, true]);
    expect(await told({ input: large, store: true })).toEqual([200, false, false, null, true]);
    expect(await told({ input: large, store: false })).toEqual([200, false, false, null, false]);
    const { id } = await client().responses.create({ model: CLAUDE, input: large.slice(0, 15_000_000) });
    expect(id).toMatch(/^resp_wb_/);
    const next = { previous_response_id: id, input: 'x' };
    expect(await told(next)).toEqual([200, true, true, id, false]);
    expect(await told({ ...next, store: false })).toEqual([200, false, false, id, false]);
    expect(await told({ ...next, input: large.slice(0, 3_000_000) })).toEqual([200, false, false, id, true]);
  });

  it('refuses ids of vendors with the dialect’s words for what can’t be translated', async () => {
    const asked = { model: CLAUDE, input: 'x', previous_response_id: 'resp_0123' };
    const response = await post(proxy, '/v1/responses', asked);
    expect([response.status, ((await response.json()) as { error: { code: string } }).error.code]).toEqual([
      400,
      'not_translatable',
    ]);
  });
});
