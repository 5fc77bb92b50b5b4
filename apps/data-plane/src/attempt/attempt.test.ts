import { create } from '@bufbuild/protobuf';
import { bucketKey } from '@weighbridge/budget';
import { BucketRefSchema, ConnectorSchema, Outcome } from '@weighbridge/contracts';
import { dearestPrices, newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import type { ResolvedKey } from '@weighbridge/state';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openTestLimits } from '../../test/limits.ts';
import { openTestUsageLog, type TestUsageLog } from '../../test/usageLog.ts';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { CHAT_COMPLETIONS } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { noFacts } from '../formats/responseFormat.ts';
import { observe } from '../observe/requestObservation.ts';
import { Cancellation } from '../upstream/cancellation.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { ResponseBody } from '../upstream/responseBody.ts';
import type { Attempt, AttemptContext } from './attempt.ts';
import type { GenerationPlan } from './plan.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import { RequestAttempts } from './requestAttempts.ts';

const connector = { ...create(ConnectorSchema, { id: 'con_1' }), serves: () => true, negotiated: new Map() };
const body = new RequestBody([Buffer.from('{"model":"mock/echo","max_tokens":10}')]);
const generation = readGenerationRequest(CHAT_COMPLETIONS, body);
const rates = { input: 10n ** 9n, output: 2n * 10n ** 9n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n };
const model = {
  id: 'mock/echo',
  provider: 'mock',
  upstreamName: 'echo',
  otherNames: [],
  own: true,
  price: { ...rates, version: 1, tiers: [], variants: [], toolPrices: {} },
  dearest: dearestPrices([]),
  free: false,
  maxOutputTokens: undefined,
  contextWindow: 8_000,
  score: undefined,
  capabilities: [],
};
const prepared: PreparedRequest = { connector, body, modelRequest: { model, connector, generation } };
const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
const BUDGETS = [
  {
    bucket,
    bucketKey: bucketKey(bucket),
    enforcement: 'enforce' as const,
    isHard: false,
    isGoverning: true,
    windowEndMs: undefined,
  },
];
const REFUSED = {
  outcome: Outcome.UPSTREAM_ERROR,
  facts: noFacts(),
  firstByteAt: undefined,
  output: () => ({ text: '', ratio: 1 }),
};

let log: TestUsageLog;
beforeEach(async () => {
  log = await openTestUsageLog();
});
afterEach(() => log.close());

/** The attempts of one request, and what became of their permits. */
function world(limitNanoUsd = 10n ** 9n, assertWaiting = () => {}) {
  const seen = { sent: 0, acquired: 0, released: 0 };
  const logger = createLogger('test');
  logger.level = 'silent';
  const key = {
    id: 'key_1',
    principalId: 'ada',
    attribution: {},
    policies: [{ bucket, allows: () => true }],
    budgets: BUDGETS,
    limits: [],
    rates: [],
    isOperator: false,
    isHard: false,
  } as unknown as ResolvedKey;
  const context: AttemptContext = {
    requestId: 'req_1',
    key,
    attribution: { labels: {} },
    modelRequested: 'mock/echo',
    streamed: false,
    admittedAtMs: 1,
    isBilled: true,
    plan: { operation: CHAT_COMPLETIONS, method: 'POST', path: '/chat/completions' } as GenerationPlan,
    headers: {},
    query: '',
    client: { assertWaiting, cancelIfLeft: () => {}, cancellation: new Cancellation() },
    observed: observe({ id: 'req_1', endpoint: 'chat_completions', receivedAt: 0, key }),
    refreshKey: async () => {},
  };
  const limits = openTestLimits(() => ({ limitNanoUsd, spentNanoUsd: 0n }));
  const attempts = new RequestAttempts(
    {
      upstreams: {
        acquirePermit: () => {
          seen.acquired++;
          return {
            release: () => void seen.released++,
            send: async (_request, _cancellation, beforeSending): Promise<UpstreamResponse> => {
              beforeSending?.();
              seen.sent++;
              const answer = new ResponseBody({ pause() {}, resume() {}, abort() {} });
              return { status: 500, headers: {}, body: answer };
            },
          };
        },
        renewToken: async () => false,
        close: async () => {},
      },
      usage: log.usage,
      ...limits,
      observer: { attempted: () => {}, sawUnknown: () => {} },
      newEventId: newUuid,
      now: () => new Date(),
      countTokens: async () => 7,
      table: () => undefined,
      logger,
    },
    context,
  );
  return { attempts, seen, budget: limits.budget };
}

/** A lease that the next attempts reserve from at once. */
async function warmUp({ attempts }: ReturnType<typeof world>): Promise<void> {
  const attempt = attempts.start();
  await attempt.run(prepared);
  await attempt.settle(REFUSED);
  await nextTurn();
}

async function answered({ attempts }: ReturnType<typeof world>): Promise<Attempt> {
  const attempt = attempts.start();
  await attempt.run(prepared);
  expect(attempt.state).toBe('answered');
  return attempt;
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('an attempt that need not wait', () => {
  it('is with the HTTP client when `run` returns, its INTENT written', async () => {
    const here = world();
    await warmUp(here);
    const attempt = here.attempts.start();
    const running = attempt.run(prepared);
    expect([here.seen.sent, attempt.state, log.usage.openAttempts]).toEqual([2, 'sent', 1]);
    expect(log.usage.durable()).toBeUndefined();
    await running;
    expect(attempt.state).toBe('answered');
  });

  it('is settled when `settle` returns, if it is alone', async () => {
    const here = world();
    await warmUp(here);
    const attempt = await answered(here);
    await nextTurn();
    expect(attempt.settle(REFUSED)).toBe(0n);
    expect([attempt.state, log.events.length, log.usage.openAttempts]).toEqual(['settled', 2, 0]);
    // Settled once.
    expect(attempt.settle(REFUSED)).toBeUndefined();
    expect(here.budget.tryReserve(BUDGETS, 1n)).toBeDefined();
  });

  it('shares its write with others of its turn, and then resolves', async () => {
    const worlds = [world(), world()];
    for (const each of worlds) await warmUp(each);
    const attempts = await Promise.all(worlds.map(answered));
    await nextTurn();
    const settling = attempts.map((attempt) => attempt.settle(REFUSED));
    expect(settling.some((each) => each instanceof Promise)).toBe(true);
    expect(await Promise.all(settling)).toEqual([0n, 0n]);
    expect([log.events.length, log.usage.openAttempts]).toEqual([4, 0]);
  });
});

describe('an attempt that is refused', () => {
  it('gives its permit back, whether the reason is known at once or later', async () => {
    const here = world(0n);
    const late = here.attempts.start();
    await late.run(prepared);
    expect([late.state, late.error]).toMatchObject(['released', { code: 'budget_exhausted' }]);
    expect(here.seen).toEqual({ sent: 0, acquired: 1, released: 1 });

    let reason: Error | undefined;
    const there = world(10n ** 9n, () => {
      if (reason) throw reason;
    });
    await warmUp(there);
    reason = new Error('disconnected');
    const atOnce = there.attempts.start();
    expect(atOnce.run(prepared)).toBeUndefined();
    expect([atOnce.state, atOnce.error]).toEqual(['released', reason]);
    expect(there.seen).toEqual({ sent: 1, acquired: 2, released: 1 });
  });
});
