import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { ALICE, BOB, HARD, SPENT, settled } from './proxy.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ traits: { strict: true } });
const proxy = useProxy(vendor);
const client = (apiKey = ALICE, url = proxy.url) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const ask = { model: 'mock/echo', prompt: 'weigh this load', max_tokens: 50 };

/** What was recorded equals what the vendor billed; nothing was counted here. */
function expectExact(): void {
  const [bill] = vendor.bill;
  expect(vendor.bill).toHaveLength(1);
  expect(settled(proxy.events)).toMatchObject([
    {
      outcome: 'SUCCESS',
      estimated: false,
      usage: { input: bill?.inputTokens, output: bill?.outputTokens },
      cost: BigInt(bill?.inputTokens ?? 0) * 1_000n + BigInt(bill?.outputTokens ?? 0) * 2_000n,
    },
  ]);
}

describe('completions', () => {
  it.each([
    ['text', { prompt: 'weigh this load' }],
    ['texts', { prompt: ['weigh this', 'and that'], n: 2, best_of: 3 }],
    ['tokens', { prompt: [1, 2, 3] }],
    ['lists of tokens', { prompt: [[1, 2], [3]], n: 2 }],
    ['a suffix and an echo', { suffix: 'end', echo: true, logprobs: 2 }],
  ])('of %s are metered to the token', async (_what, fields) => {
    const { choices, usage } = await client().completions.create({ ...ask, ...fields });
    expect(choices.length).toBeGreaterThan(0);
    expect(usage?.total_tokens).toBe(
      (vendor.bill[0]?.inputTokens ?? 0) + (vendor.bill[0]?.outputTokens ?? 0),
    );
    expectExact();
    expect(JSON.parse(String(vendor.requests[0]?.body))).toEqual({ ...ask, ...fields, model: 'echo' });
  });

  it('stream to their end, and show the usage to those who asked', async () => {
    let text = '';
    for await (const chunk of await client().completions.create({ ...ask, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
      expect(chunk).not.toHaveProperty('usage');
    }
    expect(text).toBe('weigh this load');
    expectExact();
    const asked = { ...ask, stream: true, stream_options: { include_usage: true } } as const;
    const usages: unknown[] = [];
    for await (const { usage } of await client().completions.create(asked)) usages.push(usage);
    expect(usages.at(-1)).toMatchObject({ prompt_tokens: vendor.bill[1]?.inputTokens });
    const raw = await fetch(`${proxy.url}/v1/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...ask, stream: true }),
    });
    expect(await raw.text()).toMatch(/data: \[DONE\]\n\n$/);
  });

  it("are counted here where the vendor reports no usage, the request's tokens too", async () => {
    await client().completions.create(
      { ...ask, prompt: [[1, 2, 3, 4, 5], [6]] },
      { headers: { 'x-mock-no-usage': 'true' } },
    );
    const [event] = settled(proxy.events);
    expect(event).toMatchObject({ outcome: 'SUCCESS', estimated: true });
    expect(Number(event?.usage.input)).toBeGreaterThanOrEqual(6);
  });

  it('have errors of this service in the form of OpenAI', async () => {
    await expect(client(SPENT).completions.create(ask)).rejects.toMatchObject({ code: 'budget_exhausted' });
    await expect(client().completions.create({ ...ask, model: 'mock/nope' })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    await expect(client().completions.create({ model: 'mock/echo', prompt: '' })).resolves.toBeDefined();
    const chatOnly = await startProxyForTest({ vendorUrl: vendor.url, connectors: [{ routes: [1] }] });
    await expect(client(ALICE, chatOnly.url).completions.create(ask)).rejects.toMatchObject({
      status: 400,
      code: 'route_not_supported',
    });
  });
});

describe('completions under a hard budget', () => {
  it.each([
    [{ echo: true }, 'echo'],
    [{ n: 129 }, 'n'],
    [{ best_of: 0.5 }, 'best_of'],
    [{ models: ['mock/other'] }, 'models'],
    [{ unknown_field: 1 }, 'unknown_field'],
    [{ prompt: { id: 'pmpt_1' } }, 'prompt'],
  ])('refuse what nothing bounds: %j', async (fields, param) => {
    const rich = await startProxyForTest({ vendorUrl: vendor.url, headroomNanoUsd: () => 10n ** 12n });
    const refused = client(HARD, rich.url).completions.create({ ...ask, ...fields } as never);
    await expect(refused).rejects.toMatchObject({ status: 400, param });
    expect(vendor.requests).toEqual([]);
  });

  it.each([
    [{}, 1],
    [{ n: 3 }, 3],
    [{ n: 2, best_of: 5 }, 5],
    [{ prompt: ['a', 'b', 'c'], n: 2 }, 6],
    [{ prompt: [[1], [2]] }, 2],
    [{ prompt: [1, 2, 3] }, 1],
    [{ prompt: ' [ "a" , "b" ] ' }, 1],
  ])('reserve every choice of every prompt in full: %j', async (fields, choices) => {
    // The output of one choice less than what it may cost at most: no room.
    const request = { ...ask, ...fields, max_tokens: 1_000 };
    const outputNano = 1_000n * BigInt(choices) * 2_000n;
    const hard = await startProxyForTest({ vendorUrl: vendor.url, headroomNanoUsd: () => outputNano - 1n });
    await expect(client(HARD, hard.url).completions.create(request)).rejects.toMatchObject({ status: 429 });
    expect(vendor.requests).toEqual([]);
    // And the input: at most a token per byte, at the dearest rate.
    const room = outputNano + BigInt(JSON.stringify(request).length + 600) * 2_001n;
    const roomy = await startProxyForTest({ vendorUrl: vendor.url, headroomNanoUsd: () => room });
    await client(HARD, roomy.url).completions.create(request);
    expect(vendor.requests).toHaveLength(1);
  });

  it('send the limit that the budget affords, where the request has none', async () => {
    const hard = await startProxyForTest({ vendorUrl: vendor.url, headroomNanoUsd: () => 10n ** 7n });
    await client(HARD, hard.url).completions.create({ model: 'mock/echo', prompt: ['a', 'b'] });
    const { max_tokens: limit } = JSON.parse(String(vendor.requests[0]?.body));
    expect(limit).toBeGreaterThan(16);
    expect(BigInt(limit) * 2n * 2_000n).toBeLessThan(10n ** 7n);
  });
});

describe('responses.input_tokens.count', () => {
  it('counts, and costs nothing', async () => {
    const { data, response } = await client()
      .responses.inputTokens.count({ model: 'mock/echo', input: 'weigh this load' })
      .withResponse();
    expect(data.object).toBe('response.input_tokens');
    expect(data.input_tokens).toBeGreaterThan(0);
    expect(response.headers.get('x-svc-cost-micro-usd')).toBe('0');
    expect(vendor.requests[0]?.path).toBe('/v1/responses/input_tokens');
    expect([proxy.events.length, vendor.bill.length]).toEqual([0, 0]);
    await expect(
      client(SPENT).responses.inputTokens.count({ model: 'mock/echo', input: 'x' }),
    ).resolves.toBeDefined();
  });

  it("continues only one's own stored response", async () => {
    const made = await client().responses.create({ model: 'mock/echo', input: 'one' });
    const next = { model: 'mock/echo', input: 'two', previous_response_id: made.id };
    expect((await client().responses.inputTokens.count(next)).input_tokens).toBeGreaterThan(0);
    await expect(client(BOB).responses.inputTokens.count(next)).rejects.toMatchObject({ status: 404 });
  });
});
