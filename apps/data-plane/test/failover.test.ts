import Anthropic from '@anthropic-ai/sdk';
import { create } from '@bufbuild/protobuf';
import { Outcome, PriceSchema, PriceSource, type UsageEvent } from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fault, type FaultyVendor, startFaultyVendor } from './faultyVendor.ts';
import { post } from './post.ts';
import { ALICE, SPENT, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

const SEED = Number(process.env.FAILOVER_SEED ?? 20_261_120);
const OPEN_MS = 5_000;
/** No limit, compared with what a busy machine takes. */
const PATIENT_MS = 600_000;

/** The vendors of the two connectors: `a` has the higher priority. */
let a: FaultyVendor;
let b: FaultyVendor;
let vendors: MockVendor[];
let proxy: TestProxy;
let closing: (() => Promise<unknown>)[];

beforeEach(async () => {
  vendors = await Promise.all([startMockVendor(), startMockVendor()]);
  [a, b] = (await Promise.all(vendors.map(({ url }) => startFaultyVendor(url)))) as [
    FaultyVendor,
    FaultyVendor,
  ];
  closing = [a, b, ...vendors].map((one) => () => one.close());
});
afterEach(async () => {
  for (const close of closing) await close();
});

async function start(
  connectors: TestProxyOptions['connectors'] = [{}, {}],
  options: Partial<TestProxyOptions> = {},
): Promise<void> {
  const urls = [a.url, b.url];
  proxy = await startProxy({
    vendorUrl: a.url,
    maxRetries: 2,
    ...options,
    connectors: connectors.map((connector, at) => ({ baseUrl: urls[at] ?? '', ...connector })),
  });
  closing.unshift(() => proxy.close());
}

const hello = { model: 'mock/echo', messages: [{ role: 'user' as const, content: 'Hello there' }] };

function ask(headers: Record<string, string> = {}, body: object = hello, init: RequestInit = {}) {
  const path = 'input' in body ? '/v1/responses' : '/v1/chat/completions';
  return post(proxy, path, body, headers, init);
}

/** The number of attempts. */
async function attemptsOf(answer: Promise<Response>): Promise<number> {
  const { headers, body, status } = await answer;
  await body?.cancel();
  expect(status).toBe(200);
  return Number(headers.get('x-svc-attempts'));
}

function byRequest(events: readonly UsageEvent[]): UsageEvent[][] {
  const requests = new Map<string, UsageEvent[]>();
  for (const event of events)
    requests.set(event.requestId, [...(requests.get(event.requestId) ?? []), event]);
  return [...requests.values()];
}

describe('while one of two vendors fails at random', () => {
  const FAULTS: Fault[] = [{ status: 429 }, { status: 500 }, 'reset', 'reset after the head', 'stall'];

  it(`the real SDKs see no error, and each attempt is metered (seed ${SEED})`, async () => {
    const random = seededRandom(SEED);
    a.fault = () => (random() < 0.3 ? FAULTS[Math.floor(random() * FAULTS.length)] : undefined);
    // The clock moves on between requests, so that the circuit breakers stay closed and the faults are met.
    let nowMs = 0;
    const later = () => (nowMs += 60_000);
    // Whatever fails at `a`, even for want of a CPU, does not fail at `b`.
    const patient = { connectTimeoutMs: PATIENT_MS, firstByteTimeoutMs: PATIENT_MS };
    await start([{ ...patient, firstByteTimeoutMs: 1_500 }, patient], {
      random,
      nowMs: later,
      chunkTimeoutMs: PATIENT_MS,
      retryWithinMs: PATIENT_MS,
    });
    const openai = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: ALICE, maxRetries: 0 });
    const anthropic = new Anthropic({ baseURL: proxy.url, apiKey: ALICE, maxRetries: 0 });
    const calls = [
      async () => (await openai.chat.completions.create(hello)).choices[0]?.message.content,
      async () => {
        let text = '';
        for await (const chunk of await openai.chat.completions.create({ ...hello, stream: true })) {
          text += chunk.choices[0]?.delta.content ?? '';
        }
        return text;
      },
      async () => textOf(await anthropic.messages.create({ ...hello, max_tokens: 100 })),
      async () => textOf(await anthropic.messages.stream({ ...hello, max_tokens: 100 }).finalMessage()),
    ];
    const requests = 200;
    let begun = 0;
    const caller = async () => {
      while (begun < requests) expect(await calls[begun++ % calls.length]?.()).toBe('Hello there');
    };
    await Promise.all(Array.from({ length: 10 }, caller));

    expect(a.requests.filter(Boolean).length).toBeGreaterThan(20);
    const metered = byRequest(proxy.events);
    expect(metered).toHaveLength(requests);
    for (const attempts of metered) {
      expect(attempts.length).toBeLessThanOrEqual(3);
      expect(attempts.map(({ attempt, modelAttempt }) => [attempt, modelAttempt])).toEqual(
        attempts.map((_, at) => [at + 1, at + 1]),
      );
      expect(attempts.at(-1)).toMatchObject({ outcome: Outcome.SUCCESS, estimated: false });
      for (const failed of attempts.slice(0, -1)) {
        // A vendor charges nothing for an error response; for the others only an estimate is known.
        expect(failed.estimated).toBe(failed.outcome !== Outcome.UPSTREAM_ERROR);
        expect(failed.costNanoUsd > 0n).toBe(failed.estimated);
      }
    }
    // Every attempt that reached a vendor is recorded, and the bills match to the nano-USD.
    expect(proxy.events).toHaveLength(a.requests.length + b.requests.length);
    const left = vendors
      .flatMap((vendor) => vendor.bill)
      .map(({ inputTokens, outputTokens }) => BigInt(inputTokens * 1_000 + outputTokens * 2_000));
    for (const { outcome, costNanoUsd } of proxy.events) {
      if (outcome === Outcome.SUCCESS)
        expect(left.splice(left.indexOf(costNanoUsd), 1)).toEqual([costNanoUsd]);
    }
    // On a busy machine, an answer may come when its attempt has timed out, and was charged by an estimate.
    const stalls = a.requests.filter((fault) => fault === 'stall').length;
    const timeouts = proxy.failovers.filter((one) => one === 'con_0: timeout').length;
    expect(left.length).toBeLessThanOrEqual(timeouts - stalls);
  });
});

function textOf({ content }: Anthropic.Message): string | undefined {
  return content[0]?.type === 'text' ? content[0].text : undefined;
}

describe('a failed attempt', () => {
  it('is not retried once a byte of the response arrived', async () => {
    await start();
    for (const header of [{ 'x-mock-sse-error': 'true' }, { 'x-mock-reset': 'mid' }]) {
      const answer = await ask(header, { ...hello, stream: true });
      expect(answer.headers.get('x-svc-attempts')).toBe('1');
      expect(await answer.text()).toContain('error');
    }
    expect([...vendors.map(({ requests }) => requests.length), proxy.events.length]).toEqual([2, 0, 2]);
  });

  it('is retried at most twice, and the client gets the last response unchanged', async () => {
    a.fault = () => ({ status: 500 });
    b.fault = () => ({ status: 503, retryAfter: '60' });
    await start();
    const answer = await ask();
    expect([answer.status, answer.headers.get('x-svc-attempts')]).toEqual([500, '3']);
    expect(await answer.json()).toMatchObject({ error: { message: 'faulty 500' } });
    expect([a.requests.length, b.requests.length]).toEqual([2, 1]);
    expect(proxy.events.map(({ attempt, httpStatus }) => [attempt, httpStatus])).toEqual([
      [1, 500],
      [2, 503],
      [3, 500],
    ]);
  });

  it('yields the last response, even if a later attempt had none', async () => {
    a.fault = () => ({ status: 429, retryAfter: '60' });
    b.fault = () => 'reset';
    await start();
    const answer = await ask();
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '60']);
    expect(await answer.json()).toMatchObject({ error: { message: 'faulty 429' } });
  });

  it('is final where the client is at fault', async () => {
    a.fault = () => ({ status: 400 });
    await start();
    expect((await ask()).status).toBe(400);
    expect([a.requests.length, b.requests.length]).toEqual([1, 0]);
  });

  it('is not retried beyond the budget: an interrupted attempt was charged', async () => {
    a.fault = () => 'reset';
    // Enough for one attempt.
    const rooms = [3_000_000n];
    await start([{}, {}], { headroomNanoUsd: () => rooms.shift() ?? 0n });
    const answer = await ask({ authorization: `Bearer ${SPENT}` });
    expect([answer.status, answer.headers.get('x-svc-attempts')]).toEqual([502, '1']);
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_error' } });
    expect(proxy.events).toMatchObject([{ estimated: true, connectorId: 'con_0' }]);
    expect(b.requests).toEqual([]);
  });

  it('is not retried for a client that disconnected', async () => {
    a.fault = () => ({ status: 500, retryAfter: '1' });
    await start([{}], { maxRetries: 5 });
    const leaving = new AbortController();
    const asked = ask({}, hello, { signal: leaving.signal });
    await expect.poll(() => proxy.events.length).toBe(1);
    leaving.abort();
    await expect(asked).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect([a.requests.length, proxy.events.length]).toEqual([1, 1]);
  });
});

describe('the next connector', () => {
  it('gets its own model name, and its price is charged', async () => {
    a.fault = () => ({ status: 500 });
    const price = create(PriceSchema, {
      version: 3,
      rates: { input: 5_000_000n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n },
    });
    await start([
      { upstreamNames: { 'mock/echo': 'name-at-a' } },
      { upstreamNames: { 'mock/echo': 'a-longer-name-at-b' }, prices: { 'mock/echo': price } },
    ]);
    expect(await attemptsOf(ask())).toBe(2);
    expect(JSON.parse(String(vendors[1]?.requests[0]?.body)).model).toBe('a-longer-name-at-b');
    expect(proxy.events[1]).toMatchObject({
      connectorId: 'con_1',
      priceVersion: 3,
      priceSource: PriceSource.CONNECTOR,
      costNanoUsd: BigInt(vendors[1]?.bill[0]?.inputTokens ?? 0) * 5n,
    });
  });

  it('is used at once where the first is busy, which counts neither as an attempt nor as a failure', async () => {
    await start([{ maxParallel: 1 }, {}]);
    const slow = ask({ 'x-mock-delay-ms': '3000' });
    await expect.poll(() => vendors[0]?.requests.length).toBe(1);
    for (let at = 0; at < 12; at++) expect(await attemptsOf(ask())).toBe(1);
    expect(await attemptsOf(slow)).toBe(1);
    expect(proxy.failovers).toEqual(Array(12).fill('con_0: busy'));
    expect(await attemptsOf(ask())).toBe(1);
    expect(vendors[0]?.requests).toHaveLength(2);
  });

  it('is the only one tried after the first refused its credential', async () => {
    a.fault = () => ({ status: 401 });
    await start();
    expect(await attemptsOf(ask())).toBe(2);
    for (let at = 0; at < 5; at++) expect(await attemptsOf(ask())).toBe(1);
    expect([a.requests.length, b.requests.length]).toEqual([1, 6]);
  });

  it('is never another account than the one that stores a response', async () => {
    a.fault = () => ({ status: 500 });
    await start();
    const { id } = (await (await ask({}, { model: 'mock/echo', input: 'x' })).json()) as { id: string };
    a.fault = () => undefined;
    b.fault = () => ({ status: 500 });
    const answer = await ask({}, { model: 'mock/echo', input: 'y', previous_response_id: id });
    expect([answer.status, answer.headers.get('x-svc-attempts')]).toEqual([500, '3']);
    expect([a.requests.length, b.requests.length]).toEqual([1, 4]);
  });
});

describe('a connector that is down', () => {
  it('gets one probe per half-open period, and all requests after a successful one', async () => {
    let nowMs = 0;
    a.fault = () => ({ status: 500 });
    await start([{}, {}], { nowMs: () => nowMs });
    for (let at = 0; at < 30; at++) expect(await attemptsOf(ask())).toBe(at < 5 ? 2 : 1);
    expect(a.requests).toHaveLength(5);
    nowMs += OPEN_MS;
    for (let at = 0; at < 10; at++) await attemptsOf(ask());
    expect(a.requests).toHaveLength(6);

    a.fault = () => undefined;
    for (let at = 0; at < 10; at++) await attemptsOf(ask());
    expect(a.requests).toHaveLength(6);
    nowMs += OPEN_MS;
    for (let at = 0; at < 10; at++) expect(await attemptsOf(ask())).toBe(1);
    expect(a.requests).toHaveLength(16);
  });

  it('is still used where there is no other', async () => {
    a.fault = () => ({ status: 500 });
    await start([{}], { maxRetries: 0, nowMs: () => 0 });
    for (let at = 0; at < 10; at++) expect((await ask()).status).toBe(500);
    a.fault = () => undefined;
    expect(await attemptsOf(ask())).toBe(1);
  });
});

it(`requests are distributed by weight within a priority (seed ${SEED})`, async () => {
  await start(
    [
      { priority: 1, weight: 3 },
      { priority: 1, weight: 1 },
    ],
    { random: seededRandom(SEED) },
  );
  for (let at = 0; at < 30; at++) await Promise.all(Array.from({ length: 10 }, () => attemptsOf(ask())));
  // 30 is four standard deviations.
  expect(Math.abs(a.requests.length - 225)).toBeLessThan(30);
  expect(a.requests.length + b.requests.length).toBe(300);
});
