import { create } from '@bufbuild/protobuf';
import { type BudgetedPolicy, bucketKey, type CountUnit, furtherLimitId } from '@weighbridge/budget';
import { BucketRefSchema, ConnectorSchema, Outcome, usageShard } from '@weighbridge/contracts';
import { dearestPrices, NO_TOKENS, newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import type { MatchingLimit, ResolvedKey } from '@weighbridge/state';
import { eventually } from '@weighbridge/testing';
import { nodeFileSystem, type UsageLog } from '@weighbridge/usage/recording';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openTestLimits } from '../../test/limits.ts';
import { openTestUsageLog, type TestUsageLog } from '../../test/usageLog.ts';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { CHAT_COMPLETIONS } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { noFacts } from '../formats/responseFormat.ts';
import { observe } from '../observe/requestObservation.ts';
import { Cancellation } from '../upstream/cancellation.ts';
import { ResponseBody } from '../upstream/responseBody.ts';
import type { Attempt, AttemptContext, AttemptDeps } from './attempt.ts';
import type { ResponseResult } from './charge.ts';
import type { GenerationPlan } from './plan.ts';
import { RequestAttempts } from './requestAttempts.ts';

const rates = {
  input: 1_000_000_000n,
  output: 2_000_000_000n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
};
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
const connector = { ...create(ConnectorSchema, { id: 'con_1' }), serves: () => true, negotiated: new Map() };
const body = new RequestBody([Buffer.from(`{"model":"mock/echo","max_tokens":10,"x":"${'y'.repeat(303)}"}`)]);
/** 100 input tokens and 10 output tokens. */
const RESERVE = { costNanoUsd: 120_000n, estimated: true, usage: { input: 100, output: 10 } };

let log: TestUsageLog;
let onSend = () => {};
beforeEach(async () => {
  log = await openTestUsageLog();
  vendor = { status: 200 };
});
afterEach(() => log.close());

/** What a vendor answers; an error where it does not. */
let vendor: { status: number } | Error;

/** The attempts of one request, whose vendor answers with a body that never comes. */
function open(
  deps: Partial<AttemptDeps> = {},
  { assertWaiting = () => {}, refreshKey, ...more }: OpenOptions = {},
): RequestAttempts {
  const logger = createLogger('test');
  logger.level = 'silent';
  const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
  const key: ResolvedKey = {
    id: 'key_1',
    principalId: 'ada',
    disabled: false,
    teamId: '',
    isFrozen: false,
    isOperator: false,
    expiresAtMs: undefined,
    attribution: {},
    profileId: undefined,
    policies: [{ bucket, allows: () => true }],
    budgets: [],
    limits: [],
    attributionSources: undefined,
    isHard: false,
    hardAllowFields: new Set(),
    refusesForeignObjects: false,
    translatesStrictly: false,
    cachesPrompts: false,
    restrictsModels: false,
    queueMs: 0,
    priority: 0,
    rates: [],
    limitRates: [],
    cache: undefined,
    windowRemainingMs: undefined,
    windowEndMs: undefined,
    routesBy: undefined,
    fallbacks: 0,
    onExhausted: undefined,
    ...more,
  };
  const context: Mutable<AttemptContext> = {
    requestId: 'req_1',
    key,
    attribution: { labels: {} },
    modelRequested: 'mock/echo',
    streamed: false,
    admittedAtMs: 1,
    isBilled: true,
    plan: {
      kind: 'generation',
      operation: CHAT_COMPLETIONS,
      method: 'POST',
      path: '/chat/completions',
      hideUsage: false,
      preparation: { forTarget: () => prepared },
    } as unknown as GenerationPlan,
    headers: {},
    query: '',
    client: { assertWaiting, cancelIfLeft: () => {}, cancellation: new Cancellation() },
    observed: observe({ id: 'req_1', endpoint: 'chat_completions', receivedAt: 0, key }),
    refreshKey: async () => {
      context.key = { ...key, ...refreshKey?.() };
    },
  };
  return new RequestAttempts(
    {
      upstreams: {
        acquirePermit: () => ({
          release: () => {},
          send: async (_request, _cancellation, beforeSending) => {
            beforeSending?.();
            onSend();
            if (vendor instanceof Error) throw vendor;
            const body = new ResponseBody({ pause() {}, resume() {}, abort() {} });
            body.push(Buffer.from('{'));
            return { ...vendor, headers: {}, body };
          },
        }),
        renewToken: async () => false,
        close: async () => {},
      },
      usage: log.usage,
      ...openTestLimits(() => undefined),
      observer: { attempted: () => {}, sawUnknown: () => {} },
      newEventId: newUuid,
      now: () => new Date(),
      countTokens: async () => 7,
      table: () => undefined,
      logger,
      ...deps,
    },
    context,
  );
}

type Mutable<Value> = { -readonly [Key in keyof Value]: Value[Key] };

interface OpenOptions extends Partial<Pick<ResolvedKey, 'budgets' | 'isHard' | 'limits'>> {
  assertWaiting?: () => void;
  /** What the key has once it is read again. */
  refreshKey?: () => Partial<ResolvedKey>;
}

const prepared = {
  connector,
  body,
  modelRequest: { model, connector, generation: readGenerationRequest(CHAT_COMPLETIONS, body) },
};

/** Reserves, records and sends one attempt. */
async function start(attempts: RequestAttempts): Promise<Attempt> {
  const attempt = attempts.start();
  await attempt.run(prepared);
  return attempt;
}

const result = (more: Partial<ResponseResult> = {}): ResponseResult => ({
  outcome: Outcome.SUCCESS,
  facts: noFacts(),
  firstByteAt: performance.now(),
  output: () => ({ text: 'x', ratio: 1 }),
  ...more,
});

it('settles an attempt once, however often it is asked to', async () => {
  const attempts = open();
  const attempt = attempts.start();
  expect(() => attempt.settle(result())).toThrow('no response came');
  await attempt.run(prepared);
  expect(attempt.state).toBe('answered');
  expect(log.spool.own.lastN(usageShard('ada'))).toBe(0n);
  await Promise.all([attempt.settle(result()), attempt.settle(result())]);
  expect(attempt.state).toBe('settled');
  attempts.close();
  // No usage was reported, and what was counted costs less than the reservation.
  expect(log.events).toMatchObject([{ ...RESERVE, outcome: Outcome.SUCCESS }]);
});

it.each([
  ['hard', true, ['mock/echo']],
  ['balanced', false, []],
])(
  'reports an attempt that costs more than its reservation under a %s budget: %s',
  async (_mode, isHard, reported) => {
    const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
    const policy = {
      bucket,
      bucketKey: bucketKey(bucket),
      isHard,
      isGoverning: true,
      windowEndMs: undefined,
    };
    const exceeded: string[] = [];
    const attempts = open(
      {
        ...openTestLimits(() => ({ limitNanoUsd: 10n ** 12n, spentNanoUsd: 0n })),
        onReserveExceeded: (name) => exceeded.push(name),
      },
      { budgets: [{ ...policy, enforcement: 'enforce' }], isHard },
    );
    for (const outputTokens of [1, 1_000_000]) {
      const attempt = await start(attempts);
      const usage = { ...NO_TOKENS, outputTokens };
      await attempt.settle(result({ facts: { ...noFacts(), usage } }));
    }
    expect(exceeded).toEqual(reported);
  },
);

it('records nothing and releases its reservation where the client disconnected while it waited', async () => {
  const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
  const policy = {
    bucket,
    bucketKey: bucketKey(bucket),
    isHard: false,
    isGoverning: true,
    windowEndMs: undefined,
  };
  const limits = openTestLimits(() => ({ limitNanoUsd: 120_000n, spentNanoUsd: 0n }));
  const budgets = [{ ...policy, enforcement: 'enforce' as const }];
  const assertWaiting = () => {
    throw new Error('disconnected');
  };
  const attempt = await start(open(limits, { budgets, assertWaiting }));
  expect([attempt.state, attempt.error]).toEqual(['released', new Error('disconnected')]);
  expect(log.events).toEqual([]);
  expect(limits.budget.tryReserve(budgets, 120_000n)).toBeDefined();
});

it('settles at its reservation what a fault left open, and numbers the next one', async () => {
  const attempts = open();
  const abandoned = await start(attempts);
  attempts.close();
  expect(await abandoned.settle(result())).toBeUndefined();
  vendor = { status: 500 };
  await (await start(attempts)).supersede();
  expect(log.events).toMatchObject([
    { ...RESERVE, attempt: 1, outcome: Outcome.INTERRUPTED },
    { costNanoUsd: 0n, estimated: false, attempt: 2, modelAttempt: 2, httpStatus: 500 },
  ]);
});

it('charges the reservation where the tokens cannot be counted', async () => {
  const attempt = await start(open({ countTokens: () => Promise.reject(new Error('no tokenizer')) }));
  expect(await attempt.settle(result())).toBe(RESERVE.costNanoUsd);
  expect(log.events).toMatchObject([{ ...RESERVE, outcome: Outcome.SUCCESS, httpStatus: 200 }]);
});

it('sends nothing whose record did not reach the disk, and charges nothing for it', async () => {
  const usage: UsageLog = Object.create(log.usage, {
    isDurableOnceWritten: { value: false },
    durable: { value: () => Promise.reject(new Error('EIO')) },
  });
  const attempts = open({ usage });
  const attempt = await start(attempts);
  expect([attempt.state, attempt.error]).toMatchObject(['released', { code: 'usage_backlog' }]);
  attempts.close();
  await log.spool.durable();
  expect(log.events).toMatchObject([{ costNanoUsd: 0n, estimated: false }]);
  expect(log.usage.openAttempts).toBe(0);
});

it('sends nothing of a turn that could not be written, releases the reservations, and leaves nothing open', async () => {
  let isFailing = false;
  const failing = await openTestUsageLog(1024 ** 2, {
    ...nodeFileSystem,
    write(...args) {
      if (isFailing) throw new Error('ENOSPC');
      return nodeFileSystem.write(...args);
    },
  });
  const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
  const limits = openTestLimits(() => ({ limitNanoUsd: 240_000n, spentNanoUsd: 0n }));
  const budgets = [
    {
      bucket,
      bucketKey: bucketKey(bucket),
      isHard: false,
      isGoverning: true,
      windowEndMs: undefined,
      enforcement: 'enforce' as const,
    },
  ];
  const [first, second] = [0, 1].map(() => open({ ...limits, usage: failing.usage }, { budgets }));
  isFailing = true;
  const refused = [first, second].map((attempts) => attempts && start(attempts));
  expect(await Promise.all(refused)).toMatchObject(
    [0, 1].map(() => ({ state: 'released', error: { code: 'usage_backlog', kind: 'unavailable' } })),
  );
  isFailing = false;
  expect([failing.events, failing.usage.openAttempts]).toEqual([[], 0]);
  expect(limits.budget.tryReserve(budgets, 240_000n)).toBeDefined();
  await failing.close();
});

it('writes the record of an attempt before its first byte goes out', async () => {
  let writes = 0;
  const counting = await openTestUsageLog(1024 ** 2, {
    ...nodeFileSystem,
    write(...args) {
      writes++;
      return nodeFileSystem.write(...args);
    },
  });
  const before = writes;
  vendor = { status: 200 };
  const seen: number[] = [];
  onSend = () => void seen.push(writes - before);
  const first = start(open({ usage: counting.usage }));
  const second = start(open({ usage: counting.usage }));
  await Promise.all([first, second]);
  onSend = () => {};
  expect(seen.length).toBe(2);
  expect(Math.min(...seen)).toBeGreaterThan(0);
  await counting.close();
});

function budgetOf(limitNanoUsd: bigint) {
  const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
  const policy = { bucket, bucketKey: bucketKey(bucket), isHard: false, isGoverning: true };
  const budgets = [{ ...policy, windowEndMs: undefined, enforcement: 'enforce' as const }];
  return { budgets, limits: openTestLimits(() => ({ limitNanoUsd, spentNanoUsd: 0n })) };
}

/** A log whose disk can be made to fail. */
async function openFailing() {
  let isFailing = false;
  const failing = await openTestUsageLog(1024 ** 2, {
    ...nodeFileSystem,
    write(...args) {
      if (isFailing) throw new Error('ENOSPC');
      return nodeFileSystem.write(...args);
    },
  });
  return {
    ...failing,
    fail: (fails: boolean) => {
      isFailing = fails;
    },
  };
}

const FAILED = { outcome: Outcome.UPSTREAM_ERROR };

it('holds the reservation of an attempt whose end could not be written: the next start charges it', async () => {
  const failing = await openFailing();
  const { budgets, limits } = budgetOf(360_000n);
  const attempts = open({ ...limits, usage: failing.usage }, { budgets });
  vendor = { status: 500 };
  const attempt = await start(attempts);
  failing.fail(true);
  expect(await attempt.settle(result(FAILED))).toBe(0n);
  expect(failing.usage.openAttempts).toBe(1);
  failing.fail(false);
  expect(limits.budget.tryReserve(budgets, 240_001n)).toBeUndefined();
  expect(limits.budget.tryReserve(budgets, 240_000n)).toBeDefined();
  await failing.close();
});

it('releases the rest of a reservation only once the end is written', async () => {
  let written = () => {};
  const durable = () =>
    new Promise<void>((resolve) => {
      written = resolve;
    });
  const { budgets, limits } = budgetOf(120_000n);
  const usage: UsageLog = Object.create(log.usage, {
    isDurableOnceWritten: { value: false },
    durable: { value: durable },
  });
  const attempts = open({ ...limits, usage }, { budgets });
  vendor = { status: 500 };
  const started = start(attempts);
  await eventually(() => expect(log.usage.openAttempts).toBe(1));
  written();
  const settling = (await started).settle(result(FAILED));
  await log.spool.durable();
  expect(limits.budget.tryReserve(budgets, 1n)).toBeUndefined();
  await eventually(() => expect(log.events).toHaveLength(1));
  expect(limits.budget.tryReserve(budgets, 1n)).toBeUndefined();
  written();
  await settling;
  expect(limits.budget.tryReserve(budgets, 120_000n)).toBeDefined();
});

it('releases what was never recorded, also while other writes fail', async () => {
  const failing = await openFailing();
  const { budgets, limits } = budgetOf(120_000n);
  let turns = 0;
  const usage: UsageLog = Object.create(failing.usage, {
    isDurableOnceWritten: { value: false },
    durable: {
      // The second belongs to another request's turn.
      value: () => (turns++ === 0 ? failing.usage.durable() : Promise.reject(new Error('ENOSPC'))),
    },
  });
  const attempts = open({ ...limits, usage }, { budgets });
  failing.fail(true);
  expect((await start(attempts)).error).toMatchObject({ code: 'usage_backlog' });
  expect(turns).toBe(2);
  expect(limits.budget.tryReserve(budgets, 120_000n)).toBeDefined();
  failing.fail(false);
  await failing.close();
});

it.each([
  ['answers', { status: 200 }, ['answered']],
  ['answers with an error', { status: 500 }, ['answered']],
  ['breaks the connection', new Error('reset'), ['settled']],
] as const)('asserts the transitions of an attempt whose vendor %s', async (_what, answer, [state]) => {
  vendor = answer;
  const attempt = await start(open());
  expect(attempt.state).toBe(state);
  expect(() => attempt.run(prepared)).toThrow(`${state} does not lead to`);
  if (state === 'answered') await attempt.supersede();
  await expect(attempt.supersede()).rejects.toThrow('settled does not lead to superseded');
});

it('charges the reservation of an attempt that was sent and not answered', async () => {
  vendor = new Error('reset');
  const attempt = await start(open());
  expect([attempt.state, attempt.error]).toEqual(['settled', vendor]);
  expect(log.events).toMatchObject([{ ...RESERVE, outcome: Outcome.INTERRUPTED }]);
});

it('reserves from the counters of the refreshed key where the old ones were replaced', async () => {
  const old = budgetOf(120_000n);
  const next = budgetOf(120_000n);
  const { budget: leases } = next.limits;
  const budget: AttemptDeps['budget'] = {
    settle: leases.settle.bind(leases),
    tryReserve: () => undefined,
    reserve: async (budgets, ...rest) =>
      budgets === next.budgets ? await leases.reserve(budgets, ...rest) : undefined,
  };
  const refreshed = open(
    { budget },
    {
      budgets: old.budgets,
      refreshKey: () => ({ budgets: next.budgets, limits: [] }),
    },
  );
  expect((await start(refreshed)).state).toBe('answered');
  expect(next.limits.budget.tryReserve(next.budgets, 1n)).toBeUndefined();

  const unchanged = await start(open({ budget }, { budgets: old.budgets }));
  expect([unchanged.state, unchanged.error]).toMatchObject(['released', { code: 'counter_replaced' }]);
});

it('observes and settles a free attempt that could not be recorded', async () => {
  const ends: unknown[] = [];
  const usage: UsageLog = Object.create(log.usage, {
    begin: {
      value: () => {
        throw new Error('the spool is full');
      },
    },
  });
  const attempts = open({
    usage,
    observer: { attempted: (_observed, _request, end) => void ends.push(end), sawUnknown: () => {} },
  });
  const attempt = attempts.start();
  const free = { ...prepared.modelRequest, model: { ...model, free: true } };
  await attempt.run({ ...prepared, modelRequest: free });
  expect(attempt.state).toBe('answered');
  await attempt.settle(result());
  expect(attempt.state).toBe('settled');
  expect(ends).toMatchObject([{ outcome: Outcome.SUCCESS, status: 200 }]);
  expect([attempts.usedTokens > 0, log.events]).toEqual([true, []]);
});

/** A further limit's amount that counts every attempt. */
function amountOf(unit: CountUnit | undefined): MatchingLimit & { readonly policy: BudgetedPolicy } {
  const policyId = furtherLimitId('pol_1', 'lim_1', unit);
  const bucket = create(BucketRefSchema, { policyId, counterVersion: 1, subject: 'policy' });
  const settings = { enforcement: 'enforce', isHard: false } as const;
  const policy = {
    ...settings,
    bucket,
    bucketKey: bucketKey(bucket),
    isGoverning: true,
    windowEndMs: undefined,
    limit: { id: 'lim_1', name: 'all', scope: 'policy', models: [], value: undefined, unit },
  };
  const of = { subject: 'policy', value: undefined };
  return {
    ...settings,
    id: 'lim_1',
    counts: () => true,
    countsAll: true,
    when: [],
    counterOf: () => of,
    budgetOf: () => policy,
    policy,
  };
}

const LARGE = { limitNanoUsd: 10n ** 12n, spentNanoUsd: 0n };
const countedLimits = (...units: (CountUnit | undefined)[]) => ({ limits: units.map(amountOf) });

/** What an attempt with this end counts, by its event. */
async function countsAfter(end: (attempt: Attempt, attempts: RequestAttempts) => unknown) {
  const deps = openTestLimits(() => LARGE);
  const attempts = open(deps, countedLimits(undefined, 'requests', 'tokens'));
  const attempt = await start(attempts);
  await end(attempt, attempts);
  attempts.close();
  await log.spool.durable();
  const [event] = log.events;
  const { requests, tokens } = event?.counts ?? {};
  expect(event?.reservedCounts).toMatchObject({ requests: 1, tokens: 110n });
  return [requests, tokens];
}

it.each([
  ['the tokens that the vendor reports', [1, 12n], reportedUsage({ inputTokens: 5, outputTokens: 7 })],
  [
    'tokens from the cache too',
    [1, 40n],
    reportedUsage({ inputTokens: 5, cacheReadTokens: 30, outputTokens: 5 }),
  ],
  ['more than was reserved', [1, 900n], reportedUsage({ outputTokens: 900 })],
  ['at least the reservation without usage', [1, 110n], (attempt: Attempt) => attempt.settle(result())],
  [
    'the reservation of what a fault left open',
    [1, 110n],
    (_one: Attempt, all: RequestAttempts) => all.close(),
  ],
])('counts in limits of requests and tokens: %s', async (_what, counts, end) => {
  expect(await countsAfter(end)).toEqual(counts);
});

function reportedUsage(tokens: Partial<typeof NO_TOKENS>) {
  return (attempt: Attempt) =>
    attempt.settle(result({ facts: { ...noFacts(), usage: { ...NO_TOKENS, ...tokens } } }));
}

it('counts nothing in limits of requests and tokens where the vendor answers with an error, or gets nothing', async () => {
  vendor = { status: 500 };
  expect(await countsAfter((attempt) => attempt.supersede())).toEqual([0, 0n]);
});

it('counts nothing of an attempt that was recorded and not sent', async () => {
  const usage: UsageLog = Object.create(log.usage, {
    isDurableOnceWritten: { value: false },
    durable: { value: () => Promise.reject(new Error('EIO')) },
  });
  const limits = openTestLimits(() => ({ limitNanoUsd: 110n, spentNanoUsd: 0n }));
  const attempts = open({ ...limits, usage }, countedLimits('tokens'));
  expect((await start(attempts)).state).toBe('released');
  attempts.close();
  await log.spool.durable();
  expect(log.events).toMatchObject([{ counts: { requests: 0, tokens: 0n } }]);
});

it('a free model is held to limits of requests and tokens, and to none of money', async () => {
  const free = { ...prepared, modelRequest: { ...prepared.modelRequest, model: { ...model, free: true } } };
  const used = { limitNanoUsd: 1n, spentNanoUsd: 0n };
  const limits = openTestLimits(({ policyId }) => (policyId.endsWith('.requests') ? used : undefined));
  const attempts = open(limits, countedLimits(undefined, 'requests'));
  const [first, second] = [attempts.start(), attempts.start()];
  await first.run(free);
  await first.settle(result());
  await second.run(free);
  expect([first.state, second.state]).toEqual(['settled', 'released']);
  expect(second.error).toMatchObject({ code: 'budget_contended', counter: { limits: 'limit_requests' } });
  attempts.close();
  expect(log.events).toMatchObject([{ counts: { requests: 1 }, buckets: [{}, {}, {}] }]);
});

it('an event of a key that nothing counts has no counts', async () => {
  const attempt = await start(
    open(
      openTestLimits(() => LARGE),
      countedLimits(undefined),
    ),
  );
  await attempt.settle(result());
  const [event] = log.events;
  expect([event?.counts, event?.reservedCounts]).toEqual([undefined, undefined]);
});
