import { randomBytes } from 'node:crypto';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { create } from '@bufbuild/protobuf';
import {
  type BucketRef,
  Dialect,
  Enforcement,
  KeySchema,
  Outcome,
  RecordFeedbackResponseSchema,
  ResolveResponseSchema,
  SnapshotSchema,
  type UsageEvent,
} from '@weighbridge/contracts';
import { mintToken, newUuid } from '@weighbridge/domain';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually } from '@weighbridge/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openTestLimits, type TestBucket } from '../../test/limits.ts';
import { openTestUsageLog, type TestUsageLog } from '../../test/usageLog.ts';
import { createTokenCounter } from '../answer/countTokens.ts';
import { HoldBudget } from '../answer/heldAnswer.ts';
import { openResponseCache } from '../cache/openResponseCache.ts';
import { createKeyCache } from '../control/keyCache.ts';
import { createKeyStore } from '../control/keyStore.ts';
import { routingTable } from '../control/routingTable.ts';
import { createObserver } from '../observe/observer.ts';
import { Attempts } from '../pipeline/attempts.ts';
import { ConnectorHealth } from '../upstream/health.ts';
import { createUpstreams, type Upstreams } from '../upstream/upstreams.ts';
import { type AppDeps, buildApp, inferenceHandler } from './app.ts';

const TIMEOUTS = { connectTimeoutMs: 500, firstByteTimeoutMs: 500, chunkTimeoutMs: 500 };
const PRICE = {
  input: 1_000_000_000n,
  output: 2_000_000_000n,
  cacheRead: 100_000_000n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
};

let vendor: MockVendor;
let upstreams: Upstreams;
let servers: Server[];
let events: UsageEvent[];
let log: TestUsageLog | undefined;
let url: string;
let resolved: ReturnType<typeof keyMessage> | undefined;
let resolve: () => Promise<typeof resolved>;
const token = mintToken();

/** What was spent, by policy. */
const spent = new Map<string, bigint>();

function keyMessage(
  policy: Partial<{
    policyId: string;
    limitNanoUsd: bigint;
    enforcement: Enforcement;
    allowedModels: string[];
  }> = {},
) {
  const { policyId = 'pol_1', ...limits } = policy;
  return create(KeySchema, {
    id: 'key_1',
    principalId: 'ada',
    policies: [
      {
        bucket: { policyId, counterVersion: 1, subject: 'principal:ada', windowStartMs: 0n },
        enforcement: Enforcement.ENFORCE,
        windowEndMs: 4_102_444_800_000n,
        ...limits,
      },
    ],
  });
}

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What the control plane says of a bucket: its policy's limit, and what a test says that was spent. */
function figuresOf(bucket: BucketRef): TestBucket | undefined {
  const policy = resolved?.policies.find((one) => one.bucket?.policyId === bucket.policyId);
  const spentNanoUsd = spent.get(bucket.policyId) ?? 0n;
  return policy && { limitNanoUsd: policy.limitNanoUsd ?? 0n, spentNanoUsd };
}

async function startProxy(baseUrl: string, maxSpoolBytes?: number): Promise<void> {
  const logger = createLogger('test');
  logger.level = 'silent';
  const snapshot = create(SnapshotSchema, {
    revision: 1n,
    connectors: [
      { id: 'con_1', provider: 'mock', dialect: Dialect.OPENAI, baseUrl, allowPrivateAddress: true },
    ],
    models: [
      { id: 'mock/echo', provider: 'mock', upstreamName: 'echo', price: { version: 3, rates: PRICE } },
      {
        id: 'mock/free',
        provider: 'mock',
        upstreamName: 'free',
        price: {
          version: 1,
          rates: { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n },
        },
      },
      { id: 'mock/unpriced', provider: 'mock', upstreamName: 'unpriced' },
    ],
  });
  const table = routingTable(snapshot);
  await log?.close();
  log = await openTestUsageLog(maxSpoolBytes);
  events = log.events;
  resolved = keyMessage();
  resolve = async () => resolved;
  // A store without room keeps nothing: every request asks.
  const keys = createKeyCache({
    store: createKeyStore(1),
    resolve: async () => {
      const key = await resolve();
      return create(ResolveResponseSchema, { ...(key && { key }), maxAgeMs: 1 });
    },
    state: () => 'live',
    count: () => {},
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
  });
  const deps: AppDeps = {
    keys,
    table: () => table,
    usage: log.usage,
    ...openTestLimits(figuresOf),
    upstreams,
    health: new ConnectorHealth(() => performance.now()),
    retries: { maxRetries: 0, retryWithinMs: 1_000 },
    random: Math.random,
    strata: () => undefined,
    recordFeedback: async () => create(RecordFeedbackResponseSchema),
    onFailover: () => {},
    owners: { record: async () => {}, find: async () => ({ kind: 'unknown' }) },
    pins: { decide: async ({ targets }) => ({ targets, served: () => {} }) },
    countTokens: createTokenCounter(),
    holdBudget: new HoldBudget(1_000_000),
    drainCap: { stalledMs: 60_000, drainMs: 2_000, drainBytes: 1_000_000 },
    cache: openResponseCache(1024 * 1024, undefined, createMetrics()),
    observer: createObserver({
      metrics: createMetrics(),
      log: { logger, successRatio: 1 },
      tracing: undefined,
    }),
    attempts: new Attempts(),
    corsOrigins: [],
    newEventId: newUuid,
    now: () => new Date(),
    logger,
    bodyLimitBytes: 10_000,
    notReady: () => undefined,
  };
  const app = buildApp(deps);
  url = await listen(await inferenceHandler(app, deps));
}

beforeEach(async () => {
  servers = [];
  spent.clear();
  vendor = await startMockVendor();
  upstreams = createUpstreams(TIMEOUTS);
  await startProxy(vendor.url);
});
afterEach(async () => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await upstreams.close();
  await vendor.close();
  await log?.close();
  log = undefined;
});

const ask = (fields: object = {}, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      model: 'mock/echo',
      messages: [{ role: 'user', content: 'hello there' }],
      ...fields,
    }),
    ...init,
  });
const refusal = async (answer: Promise<Response>) => {
  const response = await answer;
  const { error } = (await response.json()) as { error: Record<string, unknown> };
  return { status: response.status, ...error };
};
const settled = () => eventually(() => expect(events).toHaveLength(1), { timeoutMs: 5_000, intervalMs: 5 });

describe('admission', () => {
  it('refuses a spent budget with its figures, and lets a free model pass', async () => {
    resolved = keyMessage({ limitNanoUsd: 5_000_000n });
    spent.set('pol_1', 5_000_000n);
    expect(await refusal(ask())).toMatchObject({
      status: 429,
      type: 'insufficient_quota',
      code: 'budget_exhausted',
      policy_id: 'pol_1',
      limit_micro_usd: 5_000,
      spent_micro_usd: 5_000,
      reset: '2100-01-01T00:00:00.000Z',
    });
    expect((await ask()).headers.get('x-should-retry')).toBe('false');
    expect((await ask({ model: 'mock/free' })).status).toBe(200);
    expect(vendor.requests.map(({ body }) => JSON.parse(String(body)).model)).toEqual(['free']);
  });

  it('spends nothing where usage finds no room, and lets a free model pass', async () => {
    await startProxy(vendor.url, 2_000);
    expect(await refusal(ask())).toMatchObject({ status: 503, code: 'usage_backlog' });
    expect(vendor.requests).toHaveLength(0);
    expect((await ask({ model: 'mock/free' })).status).toBe(200);
    expect(vendor.requests.map(({ body }) => JSON.parse(String(body)).model)).toEqual(['free']);
  });

  it('sends nothing that could not be written down, though there seemed to be room', async () => {
    await startProxy(vendor.url, 18_000);
    const label = (at: number) => `label${at}=${'v'.repeat(240)}`;
    const labels = Array.from({ length: 40 }, (_, at) => label(at)).join(',');
    expect(await refusal(ask({}, { 'x-svc-labels': labels }))).toMatchObject({
      status: 503,
      code: 'usage_backlog',
    });
    expect(vendor.requests).toHaveLength(0);
    expect((await ask()).status).toBe(200);
  });

  it("tells a parent policy's figures to operators only", async () => {
    const own = keyMessage();
    const parent = keyMessage({ policyId: 'pol_2', limitNanoUsd: 5_000_000n });
    spent.set('pol_2', 6_000_000n);
    resolved = { ...own, policies: [...own.policies, ...parent.policies] };
    const figures = { policy_id: 'pol_2', limit_micro_usd: 5_000, spent_micro_usd: 6_000 };
    const told: Record<string, unknown> = await refusal(ask());
    expect(told).toMatchObject({ status: 429, code: 'budget_exhausted', reset: '2100-01-01T00:00:00.000Z' });
    for (const name of Object.keys(figures)) expect(told).not.toHaveProperty(name);
    resolved = { ...resolved, isOperator: true };
    expect(await refusal(ask())).toMatchObject({
      code: 'budget_exhausted',
      message: told.message,
      ...figures,
    });
  });

  it('counts but does not refuse under a policy that is in shadow', async () => {
    resolved = keyMessage({ limitNanoUsd: 1n, enforcement: Enforcement.SHADOW });
    spent.set('pol_1', 5n);
    expect((await ask()).status).toBe(200);
  });

  it('refuses what a policy does not allow, and what has no price', async () => {
    resolved = keyMessage({ allowedModels: ['mock/e*'] });
    expect((await ask()).status).toBe(200);
    expect(await refusal(ask({ model: 'mock/free' }))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
    });
    expect(await refusal(ask({ model: 'mock/unpriced' }))).toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    expect(await refusal(ask({ model: 'echo' }))).toMatchObject({
      status: 400,
      code: 'invalid_model',
      message: expect.stringContaining('mock/echo'),
    });
    for (const [model, suggestion] of [
      ['MOCK/Echo', '"mock/echo"'],
      ['', '"openai/gpt-5.4"'],
      ['NOBODY/echo', '"openai/gpt-5.4"'],
      ['gpt-5', '"openai/gpt-5"'],
    ]) {
      const answer = await refusal(ask({ model }));
      expect(answer).toMatchObject({
        code: 'invalid_model',
        message: expect.stringContaining(suggestion ?? ''),
      });
    }
  });

  it('is 503, not 401, where nobody can be asked about the key', async () => {
    resolve = () => Promise.reject(new Error('the control plane is away'));
    expect(await refusal(ask())).toMatchObject({ status: 503, code: 'control_plane_unreachable' });
  });

  it('refuses before the body is read: an unknown key, a body too large', async () => {
    resolved = undefined;
    expect(await refusal(ask({ filler: 'x'.repeat(20_000) }))).toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    });
    resolved = keyMessage();
    expect(await refusal(ask({ filler: 'x'.repeat(20_000) }))).toMatchObject({
      status: 413,
      code: 'body_too_large',
      message: expect.stringContaining('10000 bytes'),
    });
    for (const type of ['x', 'application/json,text/plain', '+json']) {
      expect(await refusal(ask({}, { 'content-type': type }))).toMatchObject({
        status: 415,
        param: 'content-type',
      });
    }
    expect(events).toEqual([]);
  });
});

describe('settlement', () => {
  it('prices what the vendor says, cached input apart', async () => {
    const headers = {
      'x-mock-input-tokens': '100',
      'x-mock-cached-tokens': '40',
      'x-mock-output-tokens': '7',
    };
    await (await ask({}, headers)).text();
    // 60 × 1 + 40 × 0.1 + 7 × 2 = 78 micro-USD
    expect(events).toMatchObject([
      {
        costNanoUsd: 78_000n,
        usage: { input: 60, cacheRead: 40, output: 7 },
        estimated: false,
        outcome: Outcome.SUCCESS,
        priceVersion: 3,
      },
    ]);
  });

  it('passes a refusal of the vendor on as it is, and charges nothing', async () => {
    const response = await ask({}, { 'x-mock-status': '429' });
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } });
    expect(events).toMatchObject([{ costNanoUsd: 0n, outcome: Outcome.UPSTREAM_ERROR, httpStatus: 429 }]);
  });

  it('charges what was reserved where the vendor broke off before anything came', async () => {
    for (const how of ['before', 'headers']) {
      const size = { max_tokens: 10, n: 2, filler: 'x'.repeat(700) };
      await ask(size, { 'x-mock-reset': how });
      const input = Number(events.at(-1)?.usage?.input);
      expect(events.at(-1)).toMatchObject({
        estimated: true,
        outcome: Outcome.INTERRUPTED,
        usage: { output: 20 },
        costNanoUsd: BigInt(input) * 1_000n + 20n * 2_000n,
      });
      expect(input).toBeGreaterThan(200);
    }
  });

  it('numbers the attempts of a request, and leaves none of them open', async () => {
    await ask();
    await ask({}, { 'x-mock-status': '500' });
    expect(events).toMatchObject([
      { attempt: 1, modelAttempt: 1 },
      { attempt: 1, modelAttempt: 1, costNanoUsd: 0n },
    ]);
    expect(log?.usage.openAttempts).toBe(0);
  });

  it('estimates where the vendor does not say, and believes an explicit zero', async () => {
    await (await ask({ stream: true }, { 'x-mock-no-usage': 'true', 'x-mock-chunks': '9' })).text();
    expect(events[0]).toMatchObject({ estimated: true, outcome: Outcome.SUCCESS });
    expect(events[0]?.costNanoUsd).toBeGreaterThan(0n);
    await (await ask({}, { 'x-mock-zero-usage': 'true' })).text();
    expect(events[1]).toMatchObject({ estimated: false, costNanoUsd: 0n });
  });

  it('tells a caller in the stream that the vendor broke off, and settles', async () => {
    const text = await (await ask({ stream: true }, { 'x-mock-reset': 'mid', 'x-mock-chunks': '20' })).text();
    expect(text).toMatch(/data: \{"error":\{"message":"The provider mock broke the connection/);
    expect(text).not.toContain('[DONE]');
    expect(events).toMatchObject([{ outcome: Outcome.INTERRUPTED, estimated: true }]);
  });

  it('answers 502 or 504 where the vendor did not answer, and settles', async () => {
    expect(await refusal(ask({}, { 'x-mock-reset': 'before' }))).toMatchObject({
      status: 502,
      code: 'upstream_error',
    });
    expect(await refusal(ask({}, { 'x-mock-delay-ms': '5000' }))).toMatchObject({
      status: 504,
      code: 'upstream_timeout',
    });
    expect(events.map((event) => [event.outcome, event.estimated])).toEqual([
      [Outcome.INTERRUPTED, true],
      [Outcome.INTERRUPTED, true],
    ]);
    await startProxy('http://127.0.0.1:1/v1');
    expect(await refusal(ask())).toMatchObject({ status: 502, code: 'upstream_error' });
    expect(events).toMatchObject([{ outcome: Outcome.UPSTREAM_UNREACHABLE, costNanoUsd: 0n }]);
  });

  it("learns the vendor's own figure when the caller leaves in the midst of a stream", async () => {
    const leaving = new AbortController();
    const headers = { 'x-mock-chunks': '20', 'x-mock-chunk-delay-ms': '5', 'x-mock-output-tokens': '50' };
    const response = await ask({ stream: true }, headers, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
    await settled();
    expect(events).toMatchObject([{ outcome: Outcome.CLIENT_GONE, estimated: false, usage: { output: 50 } }]);
    expect(vendor.bill[0]?.outputTokens).toBe(50);
  });

  it('passes an answer on that is too large to hold, byte for byte, and reads its usage', async () => {
    const filler = randomBytes(2_000_000).toString('hex');
    const answer = JSON.stringify({
      id: 'c-1',
      filler,
      usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
    });
    await startProxy(
      await listen((_request, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(answer),
      ),
    );
    const response = await ask();
    expect(await response.text()).toBe(answer);
    expect(response.headers.has('x-svc-cost-micro-usd')).toBe(false);
    expect(events).toMatchObject([{ usage: { input: 5, output: 1 }, responseId: 'c-1' }]);
  });
});

describe('headers', () => {
  it('go to the vendor but for those of this service, the caller and the connection', async () => {
    const sent = {
      'X-Svc-User': 'ada',
      'x-svc-unlisted': '1',
      'x-api-key': 'k',
      'api-key': 'k',
      'x-goog-api-key': 'k',
      cookie: 'c=1',
      'openai-organization': 'org',
      'openai-project': 'proj',
      forwarded: 'for=1.2.3.4',
      'x-forwarded-for': '1.2.3.4',
      'x-real-ip': '1.2.3.4',
      'openai-beta': 'kept',
      'x-custom': 'kept',
    };
    await (await ask({}, sent)).text();
    const received = vendor.requests[0]?.headers ?? {};
    expect(received).toMatchObject({
      'openai-beta': 'kept',
      'x-custom': 'kept',
      'content-type': 'application/json',
    });
    const kept = Object.keys(sent).filter((name) => name.toLowerCase() in received);
    expect(kept).toEqual(['openai-beta', 'x-custom']);
    expect(received).not.toHaveProperty('authorization');
  });
});
