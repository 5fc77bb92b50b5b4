import { create } from '@bufbuild/protobuf';
import { BucketRefSchema, ConnectorSchema, Outcome, usageShard } from '@weighbridge/contracts';
import { NO_TOKENS, newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openTestLimits } from '../../test/limits.ts';
import { openTestUsageLog, type TestUsageLog } from '../../test/usageLog.ts';
import { bucketKey } from '../control/keyPolicies.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { noFacts } from '../formats/answerFormat.ts';
import { Body } from '../formats/body.ts';
import { readCall } from '../formats/call.ts';
import { CHAT_COMPLETIONS } from '../formats/operation.ts';
import { nodeFileSystem } from '../record/spool/fileSystem.ts';
import type { UsageLog } from '../record/usageLog.ts';
import { type AttemptLogDeps, openAttemptLog } from './attemptLog.ts';
import type { EndedTry } from './endedTry.ts';

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
  price: { ...rates, version: 1, tiers: [] },
  free: false,
  maxOutputTokens: undefined,
  contextWindow: 8_000,
  score: undefined,
  capabilities: [],
};
const connector = { ...create(ConnectorSchema, { id: 'con_1' }), serves: () => true, negotiated: new Map() };
const body = new Body([Buffer.from(`{"model":"mock/echo","max_tokens":10,"x":"${'y'.repeat(303)}"}`)]);
/** 100 tokens of input and 10 of output. */
const RESERVE = { costNanoUsd: 120_000n, estimated: true, usage: { input: 100, output: 10 } };

let log: TestUsageLog;
beforeEach(async () => {
  log = await openTestUsageLog();
});
afterEach(() => log.close());

function open(
  deps: Partial<AttemptLogDeps> = {},
  key: Partial<Pick<ResolvedKey, 'budgets' | 'isHard'>> = {},
) {
  const logger = createLogger('test');
  logger.level = 'silent';
  const bucket = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });
  return openAttemptLog(
    {
      usage: log.usage,
      ...openTestLimits(() => undefined),
      newEventId: newUuid,
      now: () => new Date(),
      countTokens: async () => 7,
      logger,
      ...deps,
    },
    {
      requestId: 'req_1',
      key: {
        id: 'key_1',
        principalId: 'ada',
        disabled: false,
        isOperator: false,
        expiresAtMs: undefined,
        attribution: {},
        profileId: undefined,
        policies: [{ bucket, allows: () => true }],
        budgets: [],
        isHard: false,
        rates: [],
        cache: undefined,
        windowRemainingMs: undefined,
        windowEndMs: undefined,
        ...key,
      },
      attribution: { labels: {} },
      modelRequested: 'mock/echo',
      streamed: false,
      admittedAtMs: 1,
    },
  );
}

const outgoing = { connector, body, work: { model, connector, call: readCall(CHAT_COMPLETIONS, body) } };

const ended = (more: Partial<EndedTry> = {}): EndedTry => ({
  dispatchedAt: performance.now(),
  outcome: Outcome.SUCCESS,
  status: 200,
  facts: noFacts(),
  firstByteAt: performance.now(),
  output: () => ({ text: 'x', ratio: 1 }),
  ...more,
});

const WAITING = { requireWaiting: () => {} };

it('writes an attempt once, however often its end is told', async () => {
  const attempts = open();
  expect(await attempts.settle(ended())).toBeUndefined();
  await attempts.begin(outgoing, WAITING);
  expect(log.spool.own.lastN(usageShard({ policyId: 'pol_1', subject: 'principal:ada' }))).toBe(0n);
  await Promise.all([attempts.settle(ended()), attempts.settle(ended())]);
  attempts.close();
  expect(log.events).toMatchObject([{ outcome: Outcome.SUCCESS, usage: { output: 7 } }]);
});

it.each([
  ['hard', true, ['mock/echo']],
  ['balanced', false, []],
])(
  'an attempt that costs more than its reserve is told of under a %s budget: %s',
  async (_mode, isHard, told) => {
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
      await attempts.begin(outgoing, WAITING);
      const usage = { ...NO_TOKENS, outputTokens };
      await attempts.settle(ended({ facts: { ...noFacts(), usage } }));
    }
    expect(exceeded).toEqual(told);
  },
);

it('writes nothing and gives back what it reserved where nobody waits any more when there is room', async () => {
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
  const attempts = open(limits, { budgets });
  const left = () => {
    throw new Error('left');
  };
  await expect(attempts.begin(outgoing, { requireWaiting: left })).rejects.toThrow('left');
  expect(await attempts.settle(ended())).toBeUndefined();
  expect(log.events).toEqual([]);
  expect(limits.budget.tryReserve(budgets, 120_000n)).toBeDefined();
});

it('settles at its reserve what a fault left open, and numbers the next one', async () => {
  const attempts = open();
  await attempts.begin(outgoing, WAITING);
  attempts.close();
  expect(await attempts.settle(ended())).toBeUndefined();
  await attempts.begin(outgoing, WAITING);
  await attempts.settle(ended({ status: 500, outcome: Outcome.UPSTREAM_ERROR }));
  expect(log.events).toMatchObject([
    { ...RESERVE, attempt: 1, outcome: Outcome.INTERRUPTED },
    { costNanoUsd: 0n, estimated: false, attempt: 2, modelAttempt: 2, httpStatus: 500 },
  ]);
});

it('charges the reserve where what was used can not be counted', async () => {
  const attempts = open({ countTokens: () => Promise.reject(new Error('no tokenizer')) });
  await attempts.begin(outgoing, WAITING);
  expect(await attempts.settle(ended())).toBe(RESERVE.costNanoUsd);
  expect(log.events).toMatchObject([{ ...RESERVE, outcome: Outcome.SUCCESS, httpStatus: 200 }]);
});

it('sends nothing that did not get to the disk where it has to, and charges nothing for it', async () => {
  const usage: UsageLog = Object.create(log.usage, {
    durable: { value: () => Promise.reject(new Error('EIO')) },
  });
  const attempts = open({ usage });
  await expect(attempts.begin(outgoing, WAITING)).rejects.toMatchObject({ code: 'usage_backlog' });
  attempts.close();
  await log.spool.durable();
  expect(log.events).toMatchObject([{ costNanoUsd: 0n, estimated: false }]);
  expect(log.usage.openAttempts).toBe(0);
});

it('sends nothing of a turn that could not be written, gives back what it held, and opens nothing', async () => {
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
  const begun = [first, second].map((attempts) => attempts?.begin(outgoing, WAITING));
  expect(await Promise.allSettled(begun)).toMatchObject(
    [0, 1].map(() => ({ status: 'rejected', reason: { code: 'usage_backlog', kind: 'unavailable' } })),
  );
  isFailing = false;
  expect(await first?.settle(ended())).toBeUndefined();
  expect([failing.events, failing.usage.openAttempts]).toEqual([[], 0]);
  expect(limits.budget.tryReserve(budgets, 240_000n)).toBeDefined();
  await failing.close();
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

const REFUSED = { status: 500, outcome: Outcome.UPSTREAM_ERROR };

it('keeps the reserve of an attempt whose end could not be written: the next start charges it', async () => {
  const failing = await openFailing();
  const { budgets, limits } = budgetOf(360_000n);
  const attempts = open({ ...limits, usage: failing.usage }, { budgets });
  await attempts.begin(outgoing, WAITING);
  failing.fail(true);
  expect(await attempts.settle(ended(REFUSED))).toBe(0n);
  expect(failing.usage.openAttempts).toBe(1);
  failing.fail(false);
  expect(limits.budget.tryReserve(budgets, 240_001n)).toBeUndefined();
  expect(limits.budget.tryReserve(budgets, 240_000n)).toBeDefined();
  await failing.close();
});

it('frees what is left of a reserve only once the end is written', async () => {
  let written = () => {};
  const durable = () =>
    new Promise<void>((resolve) => {
      written = resolve;
    });
  const { budgets, limits } = budgetOf(120_000n);
  const usage: UsageLog = Object.create(log.usage, { durable: { value: durable } });
  const attempts = open({ ...limits, usage }, { budgets });
  const begun = attempts.begin(outgoing, WAITING);
  await vi.waitFor(() => expect(log.usage.openAttempts).toBe(1));
  written();
  await begun;
  const settling = attempts.settle(ended(REFUSED));
  await log.spool.durable();
  expect(limits.budget.tryReserve(budgets, 1n)).toBeUndefined();
  await vi.waitFor(() => expect(log.events).toHaveLength(1));
  expect(limits.budget.tryReserve(budgets, 1n)).toBeUndefined();
  written();
  await settling;
  expect(limits.budget.tryReserve(budgets, 120_000n)).toBeDefined();
});

it('gives back what was never written down, also while other writes fail', async () => {
  const failing = await openFailing();
  const { budgets, limits } = budgetOf(120_000n);
  let turns = 0;
  const usage: UsageLog = Object.create(failing.usage, {
    durable: {
      // The second is that of somebody else's turn.
      value: () => (turns++ === 0 ? failing.usage.durable() : Promise.reject(new Error('ENOSPC'))),
    },
  });
  const attempts = open({ ...limits, usage }, { budgets });
  failing.fail(true);
  await expect(attempts.begin(outgoing, WAITING)).rejects.toMatchObject({ code: 'usage_backlog' });
  expect(turns).toBe(2);
  expect(limits.budget.tryReserve(budgets, 120_000n)).toBeDefined();
  failing.fail(false);
  await failing.close();
});
