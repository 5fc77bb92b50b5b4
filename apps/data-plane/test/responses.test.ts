import { request } from 'node:http';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { ALICE, BOB, ONE_MODEL, SPENT, settled, startProxy, type TestProxy } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest } from './useProxy.ts';

let vendor: MockVendor;
let second: MockVendor;
let proxy: TestProxy;
let alice: OpenAI;
let bob: OpenAI;

beforeAll(async () => {
  vendor = await startMockVendor();
  second = await startMockVendor();
  proxy = await startProxy({
    vendorUrl: vendor.url,
    connectors: [{}, { id: 'con_second', baseUrl: second.url }, { id: 'con_other', provider: 'other' }],
  });
  alice = client(ALICE);
  bob = client(BOB);
});
beforeEach(() => {
  for (const one of [vendor, second]) one.clear();
  proxy.events.length = 0;
  proxy.recorded.length = 0;
  proxy.failRecords = false;
});
afterAll(async () => {
  await proxy?.close();
  await Promise.all([vendor?.close(), second?.close()]);
});

function client(apiKey: string): OpenAI {
  return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey, maxRetries: 0 });
}

const hello = { model: 'mock/echo', input: 'Hello there, weighbridge' };
const tool = {
  type: 'function' as const,
  name: 'weather',
  strict: true,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

describe('responses', () => {
  it('are created, with the usage that the vendor reported', async () => {
    const { data, response } = await alice.responses
      .create(hello, { headers: { 'x-mock-cached-tokens': '4', 'x-mock-reasoning-tokens': '9' } })
      .withResponse();
    expect(data).toMatchObject({ object: 'response', status: 'completed', output_text: hello.input });
    expect(response.headers.get('x-svc-cost-micro-usd')).toBe('39');
    expect(settled(proxy.events)).toEqual([
      {
        outcome: 'SUCCESS',
        estimated: false,
        usage: { input: 9, cacheRead: 4, cacheWrite: 0, cacheWrite1h: 0, output: 15 },
        cost: 9n * 1_000n + 4n * 100n + 15n * 2_000n,
      },
    ]);
    expect(proxy.events[0]?.responseId).toBe(data.id);
  });

  it("stream every event, through the SDK's helpers too, and call tools", async () => {
    const types = new Set<string>();
    const stream = alice.responses.stream({ ...hello, tools: [tool], tool_choice: 'required' });
    for await (const event of stream) types.add(event.type);
    const final = await stream.finalResponse();
    expect(final.output[0]).toMatchObject({
      type: 'function_call',
      name: 'weather',
      arguments: JSON.stringify({ city: hello.input }),
    });
    expect([...types]).toContain('response.function_call_arguments.delta');
    expect([...types].at(-1)).toBe('response.completed');
    const text = await alice.responses.stream(hello).finalResponse();
    expect(text.output[0]).toMatchObject({ content: [{ type: 'output_text', text: hello.input }] });
    expect(settled(proxy.events).map(({ estimated }) => estimated)).toEqual([false, false]);
  });

  it('can be read by their owner only, through the connector that created them', async () => {
    const { id } = await alice.responses.create(hello);
    expect(proxy.recorded).toMatchObject([
      { responseId: id, connectorId: 'con_0', key: { principalId: 'alice' } },
    ]);
    proxy.events.length = 0;
    vendor.clear();

    const { data, response } = await alice.responses.retrieve(id).withResponse();
    expect(data).toMatchObject({ id, output_text: hello.input });
    const shown = ['x-svc-cache', 'x-svc-cost-micro-usd'].map((name) => response.headers.get(name));
    expect(shown).toEqual(['bypass', '0']);
    const items = await alice.responses.inputItems.list(id, { limit: 5, order: 'asc' });
    expect(items.data).toMatchObject([{ content: hello.input }]);
    expect(vendor.requests.map(({ path }) => path)).toEqual([
      `/v1/responses/${id}`,
      `/v1/responses/${id}/input_items?limit=5&order=asc`,
    ]);
    expect(vendor.requests[0]?.headers).toMatchObject({ authorization: 'Bearer vendor-secret' });

    const attempts = [
      () => bob.responses.retrieve(id),
      () => bob.responses.inputItems.list(id),
      () => bob.responses.delete(id),
      () => bob.responses.cancel(id),
      () => bob.responses.create({ ...hello, previous_response_id: id }),
    ];
    for (const attempt of attempts) {
      await expect((async () => await attempt())()).rejects.toThrow(OpenAI.NotFoundError);
    }
    // An id without a recorded owner belongs to no one.
    await expect(alice.responses.create({ ...hello, previous_response_id: 'a\u0000' })).rejects.toThrow(
      OpenAI.NotFoundError,
    );
    expect(vendor.requests).toHaveLength(2);
    await expect(alice.responses.cancel(id)).rejects.toMatchObject({ status: 400 });
    await alice.responses.delete(id);
    await expect(alice.responses.retrieve(id)).rejects.toThrow(OpenAI.NotFoundError);
    // No model worked: nothing was charged.
    expect(proxy.events).toEqual([]);
  });

  it('continue one another on the account that stores the first', async () => {
    const { id } = await alice.responses.create(hello);
    const next = await alice.responses.create({
      model: 'mock/echo',
      input: 'again',
      previous_response_id: id,
    });
    expect(next.previous_response_id).toBe(id);
  });

  it('have their owner recorded before the client gets their id, and fail where that fails', async () => {
    proxy.failRecords = true;
    await expect(alice.responses.create(hello)).rejects.toMatchObject({
      status: 503,
      code: 'response_not_recorded',
    });
    const stream = await alice.responses.create({ ...hello, stream: true });
    const seen: unknown[] = [];
    const reading = (async () => {
      for await (const event of stream) seen.push(event);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'response_not_recorded' });
    expect(seen).toEqual([]);
    // One that is not stored is no one's to read: its owner is recorded once the control plane is there.
    await alice.responses.create({ ...hello, store: false });
    expect(proxy.events).toHaveLength(3);
  });

  it('have what they name recorded with them, and what a read of them names', async () => {
    const made = await alice.responses.create({ ...hello, store: false });
    expect(proxy.recorded).toMatchObject([{ responseId: made.id, objectIds: [`~${made.output[0]?.id}`] }]);
    proxy.recorded.length = 0;
    const begun = await alice.responses.create({ ...hello, background: true, max_output_tokens: 50 });
    expect(proxy.recorded).toMatchObject([{ responseId: begun.id, objectIds: [] }]);
    const done = await alice.responses.retrieve(begun.id);
    const { data: items } = await alice.responses.inputItems.list(begun.id);
    expect(proxy.recorded.slice(1)).toMatchObject([
      { responseId: begun.id, connectorId: 'con_0', objectIds: [done.output[0]?.id] },
      { responseId: begun.id, connectorId: 'con_0', objectIds: [`~${items[0]?.id}`] },
    ]);
    for (const id of [done.output[0]?.id, items[0]?.id]) {
      const input = [{ type: 'item_reference' as const, id: String(id) }];
      await expect(bob.responses.create({ ...hello, input })).rejects.toThrow(OpenAI.NotFoundError);
      expect(await alice.responses.create({ ...hello, input })).toMatchObject({ status: 'completed' });
    }
    await expect.poll(() => proxy.settledResponses.length).toBe(1);
    proxy.settledResponses.length = 0;
  });

  it('of unknown owner are requested from every account, by priority', async () => {
    const { id } = await new OpenAI({ baseURL: second.url, apiKey: 'x' }).responses.create({
      ...hello,
      model: 'echo',
    });
    expect(await alice.responses.retrieve(id)).toMatchObject({ id });
    expect(vendor.requests).toHaveLength(1);
    await expect(alice.responses.retrieve('resp_unknown')).rejects.toThrow(OpenAI.NotFoundError);
    vendor.clear();
    // Its policy allows no model of the third connector.
    await expect(client(ONE_MODEL).responses.retrieve('resp_unknown')).rejects.toThrow(OpenAI.NotFoundError);
    expect(vendor.requests).toHaveLength(1);
  });

  it('have ids that vendors issue: no vendor is asked for another one', async () => {
    // Without fetch, which normalizes dots in a path.
    const ask = (method: string, path: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { authorization: `Bearer ${ALICE}` };
        const sent = request(`${proxy.url}`, { method, path: `/v1/responses/${path}`, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        });
        sent.on('error', reject).end();
      });
    const ids = [
      '..%2Fmodels',
      'a%20b%3Fc',
      '%2e%2e',
      '%2E',
      'x'.repeat(513),
      'a%5Cb',
      'a%25b',
      'a%23',
      'r%C3%A9',
    ];
    for (const id of [...ids, 'resp_1%2Finput_items', 'a%0d%0ab', 'a;b', 'a%252Fb']) {
      expect(await ask('GET', id)).toBe(404);
      expect(await ask('DELETE', id)).toBe(404);
      expect(await ask('GET', `${id}/input_items`)).toBe(404);
      expect(await ask('POST', `${id}/cancel`)).toBe(404);
    }
    expect(vendor.requests).toEqual([]);
    expect(await ask('GET', 'x'.repeat(512))).toBe(404);
    expect(await ask('GET', 'resp_A.b:c-1')).toBe(404);
    // Its two accounts were asked for each.
    expect(vendor.requests).toHaveLength(4);
  });

  it('in the background are charged their reservation: the size of the input, and the output limit', async () => {
    const made = await alice.responses.create({ ...hello, background: true, max_output_tokens: 50 });
    expect(made.status).toBe('queued');
    expect(settled(proxy.events)).toMatchObject([{ estimated: true, usage: { input: 27, output: 50 } }]);
    expect(await alice.responses.retrieve(made.id)).toMatchObject({ status: 'completed' });
    // The first read tells what it used.
    await expect
      .poll(() => proxy.settledResponses)
      .toMatchObject([
        {
          responseId: made.id,
          status: 'completed',
          principalId: 'alice',
          usage: { output: expect.any(Number) },
        },
      ]);
    proxy.events.length = 0;
    await alice.responses.create({ ...hello, background: true });
    const [event] = settled(proxy.events);
    expect(event).toMatchObject({ estimated: true });
    // Without a limit, the longest that the model writes.
    expect(event?.usage?.output).toBeGreaterThanOrEqual(8_000);
    await expect.poll(() => proxy.settledResponses.length).toBe(2);
  });

  it('in the background are polled until their usage is known, also if their stream was left', async () => {
    const settledOutput = () =>
      proxy.settledResponses.map(({ usage, connectorId }) => ({
        connectorId,
        output: Number(usage?.output),
      }));
    proxy.settledResponses.length = 0;
    const headers = { 'x-mock-background-ms': '500', 'x-mock-output-tokens': '7' };
    await alice.responses.create({ ...hello, background: true, max_output_tokens: 50 }, { headers });
    expect(settled(proxy.events)).toMatchObject([{ estimated: true, usage: { output: 50 } }]);
    await expect.poll(settledOutput).toEqual([{ connectorId: 'con_0', output: 7 }]);

    const leaving = new AbortController();
    const streamed = await alice.responses.create(
      { ...hello, background: true, stream: true, max_output_tokens: 60 },
      {
        headers: { 'x-mock-chunks': '50', 'x-mock-chunk-delay-ms': '20', 'x-mock-output-tokens': '50' },
        signal: leaving.signal,
      },
    );
    for await (const event of streamed) if (event.type === 'response.output_text.delta') break;
    leaving.abort();
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{}, { outcome: 'CLIENT_GONE', estimated: true, usage: { output: 60 } }]);
  });

  it('without an id are not passed on', async () => {
    const vendorUrl = await startVendor((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (let at = 0; at < 40; at++) response.write(`data: {"type":"x","y":"${'z'.repeat(50_000)}"}\n\n`);
      response.end();
    });
    const answer = await post(await startProxyForTest({ vendorUrl }), '/v1/responses', {
      ...hello,
      stream: true,
    });
    const seen = await answer.text();
    expect(seen).toContain('response_not_recorded');
    expect(seen).not.toContain('zzzzzzzz');
  });

  it('that name their id too late are not passed on, and cost what they report', async () => {
    const headers = { 'x-mock-pad-bytes': '3000000', 'x-mock-id-at': 'end', 'x-mock-output-tokens': '321' };
    await expect(alice.responses.create(hello, { headers })).rejects.toMatchObject({
      status: 502,
      code: 'response_not_recorded',
    });
    expect(settled(proxy.events)).toMatchObject([
      { outcome: 'INTERRUPTED', estimated: false, usage: { output: 321 } },
    ]);
  });

  it('whose owner is not recorded are read on, and cost what they report', async () => {
    proxy.failRecords = true;
    const headers = { 'x-mock-pad-bytes': '3000000', 'x-mock-output-tokens': '321' };
    const failed = { status: 503, code: 'response_not_recorded' };
    await expect(alice.responses.create(hello, { headers })).rejects.toMatchObject(failed);
    const draining = client(ALICE).responses.create(
      { ...hello, stream: true },
      { headers: { 'x-mock-output-tokens': '321' } },
    );
    const reading = (async () => {
      for await (const _ of await draining);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'response_not_recorded' });
    const reported = { outcome: 'INTERRUPTED', estimated: false, usage: { output: 321 } };
    expect(settled(proxy.events)).toMatchObject([reported, reported]);
  });

  it('need a budget to be created, and none to be read', async () => {
    await expect(client(SPENT).responses.create(hello)).rejects.toMatchObject({ code: 'budget_exhausted' });
    await expect(client(SPENT).responses.retrieve('resp_x')).rejects.toMatchObject({ status: 404 });
  });

  it.each(['sse-error', 'reset'] as const)(
    'that break off (%s) end with an error that the SDK understands',
    async (how) => {
      const headers: Record<string, string> =
        how === 'reset' ? { 'x-mock-reset': 'mid' } : { 'x-mock-sse-error': 'true' };
      const stream = await alice.responses.create({ ...hello, stream: true }, { headers });
      const seen: string[] = [];
      const reading = (async () => {
        for await (const event of stream) seen.push(event.type);
      })();
      if (how === 'reset') await expect(reading).rejects.toThrow(/closed the connection early/);
      else {
        await reading;
        expect(seen.at(-1)).toBe('error');
      }
      await expect.poll(() => settled(proxy.events)).toMatchObject([{ estimated: true }]);
    },
  );
});

describe('an id that cannot be stored', () => {
  const headers = { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' };
  const notFound = async (answer: Promise<Response>) => {
    const response = await answer;
    const { error } = (await response.json()) as { error: { code: string } };
    expect([response.status, error.code]).toEqual([404, 'response_not_found']);
    expect(vendor.requests).toEqual([]);
  };

  it('is not found, and no vendor gets the request', async () => {
    await notFound(fetch(`${proxy.url}/v1/responses/a%00b`, { headers }));
    await notFound(fetch(`${proxy.url}/v1/responses/a%00b`, { headers, method: 'DELETE' }));
  });

  it.each(['a\\u0000b', 'a\\ud800b'])('cannot be continued: %s', async (id) => {
    const body = `{"model":"mock/echo","input":"hi","previous_response_id":"${id}"}`;
    await notFound(fetch(`${proxy.url}/v1/responses`, { headers, method: 'POST', body }));
  });
});
