import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { ALICE, BOB, HARD, ONE_MODEL, SPENT, settled } from './proxy.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ traits: { strict: true } });
const models = [{ id: 'mock/sized', nanoPerToken: 1_000n, maxOutputTokens: 4_000 }];
const options = { models };
const proxy = useProxy(vendor, options);
const client = (apiKey = ALICE, url = proxy.url) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const ask = { model: 'mock/sized', input: 'weigh this load' };
const script = { headers: { 'x-mock-output-tokens': '300', 'x-mock-cached-tokens': '1' } };

describe('responses.compact', () => {
  it('is charged what the vendor bills', async () => {
    const { data, response } = await client().responses.compact(ask, script).withResponse();
    expect(data).toMatchObject({ object: 'response.compaction', usage: { output_tokens: 300 } });
    expect(data.output.at(-1)).toMatchObject({ type: 'compaction' });
    expect(vendor.requests[0]?.path).toBe('/v1/responses/compact');
    expect(response.headers.get('x-svc-model')).toBe('mock/sized');
    const { inputTokens = 0, cachedInputTokens = 0, outputTokens = 0 } = vendor.bill[0] ?? {};
    expect(settled(proxy.events)).toMatchObject([
      {
        outcome: 'SUCCESS',
        estimated: false,
        usage: { input: inputTokens - cachedInputTokens, cacheRead: cachedInputTokens, output: outputTokens },
        cost: 1_000n * BigInt(inputTokens + outputTokens),
      },
    ]);
    // Its items may be sent back, sealed.
    const next = await client().responses.create({ ...ask, input: data.output as never });
    expect(next.status).toBe('completed');
  });

  it("continues only one's own stored response", async () => {
    const made = await client().responses.create(ask);
    const next = { ...ask, previous_response_id: made.id };
    expect((await client().responses.compact(next)).usage.input_tokens).toBeGreaterThan(0);
    await expect(client(BOB).responses.compact(next)).rejects.toMatchObject({ status: 404 });
  });

  it('obeys the budget, and the policy under any spelling', async () => {
    await expect(client(SPENT).responses.compact(ask)).rejects.toMatchObject({
      status: 429,
      code: 'budget_exhausted',
      param: null,
    });
    for (const model of ['mock/sized', 'sized']) {
      const refused = client(ONE_MODEL).responses.compact({ ...ask, model });
      await expect(refused).rejects.toMatchObject({ status: 403, code: 'model_not_allowed' });
    }
    expect(vendor.requests).toEqual([]);
  });

  it.each(['/v1', '/openai/v1', '/openai', '/openai/deployments/sized'])(
    'is served below %s',
    async (prefix) => {
      const answer = await fetch(`${proxy.url}${prefix}/responses/compact`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
        body: JSON.stringify(ask),
      });
      expect(answer.status).toBe(200);
      expect(proxy.events).toHaveLength(1);
    },
  );

  it('is charged at least its reservation if it reports no usage', async () => {
    await client().responses.compact(ask, { headers: { 'x-mock-no-usage': 'true' } });
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'SUCCESS', estimated: true }]);
    expect(proxy.events[0]?.costNanoUsd).toBeGreaterThan(1_000_000n);
  });
});

describe('under a hard budget', () => {
  const sized = (nano: bigint) =>
    startProxyForTest({ vendorUrl: vendor.url, ...options, headroomNanoUsd: () => nano });

  it('reserves all that the model may write, and sends no limit', async () => {
    const output = 4_000n * 1_000n;
    const poor = await sized(output - 1n);
    await expect(client(HARD, poor.url).responses.compact(ask)).rejects.toMatchObject({ status: 429 });
    expect(vendor.requests).toEqual([]);
    const rich = await sized(output + 2_000n * 1_000n);
    await client(HARD, rich.url).responses.compact(ask, { headers: { 'x-mock-output-tokens': '4000' } });
    expect(Object.keys(JSON.parse(String(vendor.requests[0]?.body)))).toEqual(['model', 'input']);
    expect(rich.events[0]?.costNanoUsd).toBeGreaterThan(output);
  });

  it('is refused where nothing bounds it', async () => {
    const rich = await sized(10n ** 12n);
    const refused = (fields: object) => client(HARD, rich.url).responses.compact({ ...ask, ...fields });
    const unknown = refused({ model: 'mock/echo' });
    await expect(unknown).rejects.toMatchObject({
      status: 400,
      code: 'not_allowed_in_hard_mode',
      param: 'model',
    });
    const stored = refused({ previous_response_id: 'resp_1' });
    await expect(stored).rejects.toMatchObject({ status: 400, param: 'previous_response_id' });
    expect(vendor.requests).toEqual([]);
  });
});
