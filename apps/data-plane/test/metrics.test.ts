import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { ALICE, RATED, SPENT, startProxy, type TestProxy } from './proxy.ts';

let vendor: MockVendor;
let proxy: TestProxy;

beforeEach(async () => {
  vendor = await startMockVendor();
  proxy = await startProxy({ vendorUrl: vendor.url });
});
afterEach(async () => {
  await proxy.close();
  await vendor.close();
});

const hello = { model: 'mock/echo', messages: [{ role: 'user' as const, content: 'Hello there' }] };

function sdk(key = ALICE): OpenAI {
  return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0 });
}

async function ask(headers: Record<string, string> = {}, body: object = hello, path = 'chat/completions') {
  const response = await post(proxy, `/v1/${path}`, body, headers);
  await response.text().catch(() => {});
  return response;
}

/** The value of a series; undefined where there is none. */
async function value(series: string): Promise<number | undefined> {
  const line = (await proxy.metrics.text()).split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length));
}

const requests = (outcome: string, model = 'mock/echo', endpoint = 'chat_completions') =>
  value(`weighbridge_requests_total{endpoint="${endpoint}",model="${model}",outcome="${outcome}"}`);
const attempts = (outcome: string) =>
  value(`weighbridge_attempts_total{connector="con_0",outcome="${outcome}"}`);

describe('a successful request', () => {
  it('is counted once, with its duration, usage and cost', async () => {
    await sdk().chat.completions.create(hello);
    await eventually(async () => expect(await requests('success')).toBe(1));
    expect(await attempts('success')).toBe(1);
    const [event] = proxy.events;
    const input = Number(event?.usage?.input);
    const output = Number(event?.usage?.output);
    const dollars = Number(event?.costNanoUsd) / 1e9;
    expect(dollars).toBeGreaterThan(0);
    expect(await value('weighbridge_tokens_total{model="mock/echo",type="input"}')).toBe(input);
    expect(await value('weighbridge_tokens_total{model="mock/echo",type="output"}')).toBe(output);
    expect(await value('weighbridge_cost_usd_total{model="mock/echo",connector="con_0"}')).toBe(dollars);
    const policy = event?.buckets[0]?.policyId;
    expect(await value(`weighbridge_cost_by_policy_usd_total{policy="${policy}"}`)).toBe(dollars);
    const operation =
      'gen_ai_operation_name="chat",gen_ai_provider_name="mock",gen_ai_request_model="mock/echo"';
    expect(await value(`gen_ai_client_token_usage_sum{${operation},gen_ai_token_type="input"}`)).toBe(input);
    expect(await value(`gen_ai_client_token_usage_count{${operation},gen_ai_token_type="output"}`)).toBe(1);
    expect(await value(`gen_ai_client_operation_duration_seconds_count{${operation},error_type=""}`)).toBe(1);
    expect(
      await value(
        'weighbridge_request_duration_seconds_count{endpoint="chat_completions",outcome="success"}',
      ),
    ).toBe(1);
    expect(await value('weighbridge_request_overhead_seconds_count{endpoint="chat_completions"}')).toBe(1);
    // Not streamed.
    expect(await value('weighbridge_time_to_first_chunk_seconds_count{endpoint="chat_completions"}')).toBe(0);
  });

  it('has a time to first chunk where it is streamed', async () => {
    for await (const _ of await sdk().chat.completions.create({ ...hello, stream: true }));
    await eventually(async () => expect(await requests('success')).toBe(1));
    expect(await value('weighbridge_time_to_first_chunk_seconds_count{endpoint="chat_completions"}')).toBe(1);
    expect(
      await value(
        'gen_ai_client_operation_time_to_first_chunk_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="mock",gen_ai_request_model="mock/echo"}',
      ),
    ).toBe(1);
  });

  it('reports the estimated part of its cost', async () => {
    await ask({ 'x-mock-no-usage': 'true' });
    await eventually(async () => expect(await requests('success')).toBe(1));
    const estimated = await value('weighbridge_cost_estimated_usd_total{model="mock/echo"}');
    expect(estimated).toBe(Number(proxy.events[0]?.costNanoUsd) / 1e9);
  });

  it('has its own label for embeddings', async () => {
    await sdk().embeddings.create({ model: 'mock/echo', input: 'Hello', encoding_format: 'float' });
    await eventually(async () => expect(await requests('success', 'mock/echo', 'embeddings')).toBe(1));
    expect(
      await value(
        'gen_ai_client_token_usage_count{gen_ai_operation_name="embeddings",gen_ai_provider_name="mock",gen_ai_request_model="mock/echo",gen_ai_token_type="input"}',
      ),
    ).toBe(1);
  });

  it('is counted where nothing is billed: models, token counts, stored responses', async () => {
    await sdk().models.list();
    await ask({}, { ...hello, max_tokens: 1 }, 'messages/count_tokens');
    const { id } = await sdk().responses.create({ model: 'mock/echo', input: 'Hello' });
    await sdk().responses.retrieve(id);
    await eventually(async () => expect(await requests('success', 'none', 'stored_responses')).toBe(1));
    expect(await requests('success', 'none', 'models')).toBe(1);
    expect(await requests('success', 'mock/echo', 'count_tokens')).toBe(1);
    // Only the response is an attempt.
    expect(await attempts('success')).toBe(1);
  });
});

describe('a failed request', () => {
  it.each([
    ['400', 'vendor_refused', 'client_error'],
    ['429', 'vendor_refused', 'rate_limited'],
    ['401', 'vendor_error', 'credential'],
    ['503', 'vendor_error', 'server_error'],
  ])('has an outcome for the cause: a vendor with %s is %s', async (status, outcome, attempt) => {
    await ask({ 'x-mock-status': status });
    await eventually(async () => expect(await requests(outcome)).toBe(1));
    expect(await attempts(attempt)).toBe(1);
    expect(await requests('success')).toBeUndefined();
  });

  it('is a vendor error before the response, and an interruption within it', async () => {
    await ask({ 'x-mock-reset': 'before' });
    await eventually(async () => expect(await requests('vendor_error')).toBe(1));
    await ask({ 'x-mock-reset': 'mid', 'x-mock-chunks': '8' }, { ...hello, stream: true });
    await eventually(async () => expect(await requests('interrupted')).toBe(1));
    expect(await attempts('interrupted')).toBe(2);
  });

  it('has an outcome for a stream that failed after a 200', async () => {
    await ask({ 'x-mock-sse-error': 'true', 'x-mock-chunks': '8' }, { ...hello, stream: true });
    await eventually(async () => expect(await requests('vendor_error')).toBe(1));
    expect(await attempts('stream_error')).toBe(1);
  });

  it('has an outcome for a client that disconnected', async () => {
    const leaving = new AbortController();
    const stream = await sdk().chat.completions.create(
      { ...hello, stream: true },
      { headers: { 'x-mock-chunks': '100', 'x-mock-chunk-delay-ms': '20' }, signal: leaving.signal },
    );
    for await (const _ of stream) leaving.abort();
    await eventually(async () => expect(await requests('client_gone')).toBe(1));
    expect(await attempts('client_gone')).toBe(1);
  });

  it('has an outcome for what refused it: budget, rate limit, key or validation', async () => {
    await expect(sdk(SPENT).chat.completions.create(hello)).rejects.toThrow();
    expect(await requests('budget')).toBe(1);
    for (let n = 0; n < 65; n++) {
      await ask({ authorization: `Bearer ${RATED}` }, { model: 'mock/echo', input: 'x' }, 'embeddings');
    }
    expect(await requests('rate_limit', 'mock/echo', 'embeddings')).toBeGreaterThan(0);
    await expect(sdk('nobody').chat.completions.create(hello)).rejects.toThrow();
    expect(await requests('unauthorized', 'none')).toBe(1);
    await expect(sdk().chat.completions.create({ ...hello, model: 'no-slash' })).rejects.toThrow();
    expect(await requests('invalid', 'none')).toBe(1);
    const text = await proxy.metrics.text();
    expect(text).toMatch(/^weighbridge_limit_refusals_total\{policy="[^"]+",limit="budget"\} 1$/m);
    expect(text).toMatch(/^weighbridge_limit_refusals_total\{policy="[^"]+",limit="rate"\} [1-9]/m);
  });

  it('never puts its own text into a label', async () => {
    await fetch(`${proxy.url}/v1/made-up-path`, { headers: { authorization: `Bearer ${ALICE}` } });
    await ask({}, { ...hello, model: 'mock/made-up-model' });
    expect(await requests('invalid', 'none', 'other')).toBe(1);
    expect(await requests('invalid', 'none')).toBe(1);
    expect(await proxy.metrics.text()).not.toContain('made-up');
  });
});
