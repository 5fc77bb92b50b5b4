import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type BucketRef,
  bucketKey,
  type LeaseOutcome,
  leaseMessage,
  MAX_BUCKETS_PER_CALL,
  MAX_PRIORITY,
  MAX_WAITING_PER_CALL,
  sliceOf,
  withUnattributed,
} from '@weighbridge/budget';
import {
  type AccountGrantSchema,
  type AccountCall as AccountMessage,
  type BudgetCall,
  type BudgetLeaseSchema,
  FirstUseWindow_Outcome,
  type FirstUseWindowSchema,
  type LeaseRequest,
  type LeaseResponseSchema,
  type LeftOfLimit,
  type RateGrantSchema,
} from '@weighbridge/contracts';
import { type Database, isStatementTimeout } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import {
  answerLeaseCalls,
  answerWindowCalls,
  type ConnectorCall,
  grantAccounts,
  grantRates,
  pruneRates,
  readUnattributed,
} from '@weighbridge/ledger';
import { type BucketTurns, budgetBusy } from './bucketTurns.ts';

export interface LeaseDeps {
  /** A pool of their own: they wait for locks. */
  readonly db: Database;
  readonly turns: BucketTurns;
  readonly now: () => Date;
  /** The number of proxies that share the budgets. */
  readonly countLive: () => Promise<number>;
  /** Asks all proxies to return the idle part of their leases on these buckets. */
  readonly reclaim: (buckets: readonly BucketRef[]) => Promise<void>;
}

/** Grants a proxy leases on budgets, and rates, as far as there is headroom. */
export async function grantLeases(
  deps: LeaseDeps,
  request: LeaseRequest,
): Promise<MessageInitShape<typeof LeaseResponseSchema>> {
  const lists = [request.budgets, request.rates, request.windows, request.accounts];
  if (lists.some(({ length }) => length > MAX_BUCKETS_PER_CALL)) throw tooManyBuckets();
  const liveProxies = Math.max(1, await deps.countLive());
  const [budgets, rates, windows, accounts] = await Promise.all([
    leaseBudgets(deps, request, liveProxies),
    leaseRates(deps, request, liveProxies),
    findWindows(deps, request),
    leaseAccounts(deps, request),
  ]).catch((error) => {
    throw isStatementTimeout(error) ? budgetBusy(error) : error;
  });
  return { budgets, rates, windows, accounts };
}

const WINDOW_OUTCOMES = {
  open: FirstUseWindow_Outcome.OPEN,
  unopened: FirstUseWindow_Outcome.UNOPENED,
  others: FirstUseWindow_Outcome.OTHERS,
  replaced: FirstUseWindow_Outcome.OVER,
};

async function findWindows(
  deps: LeaseDeps,
  { windows }: LeaseRequest,
): Promise<MessageInitShape<typeof FirstUseWindowSchema>[]> {
  const calls = windows.map(({ keyId, opens, ...bucket }) => ({ bucket, keyId, opens }));
  const answers = await answerWindowCalls(deps.db, calls, deps.now());
  return answers.map(({ outcome, start, limit }) => ({
    outcome: WINDOW_OUTCOMES[outcome],
    ...(start && { startMs: BigInt(start.getTime()) }),
    ...(limit !== null && { limit }),
  }));
}

async function leaseBudgets(
  deps: LeaseDeps,
  { producerId, epoch, budgets }: LeaseRequest,
  liveProxies: number,
): Promise<MessageInitShape<typeof BudgetLeaseSchema>[]> {
  if (budgets.length === 0) return [];
  const buckets = budgets.map(bucketOf);
  const keys = buckets.map(bucketKey);
  const results = await deps.turns.run(keys, () =>
    answerLeaseCalls(deps.db, {
      producerId,
      epoch,
      now: deps.now(),
      calls: budgets.map((call, at) => {
        const bucket = buckets[at] ?? raise(new Error('a lease call has no bucket'));
        return {
          bucket,
          seq: call.seq,
          returnedNanoUsd: call.returnedNanoUsd,
          minimumNanoUsd: call.minimumNanoUsd,
          standingNanoUsd: call.standingNanoUsd,
          keyId: call.keyId,
          wantNanoUsd: (headroom) => sliceOf(call, headroom, BigInt(liveProxies)),
        };
      }),
    }),
  );
  const contended = buckets.filter((_, at) => results[at]?.outcome === 'contended');
  if (contended.length > 0) await deps.reclaim(contended);
  const refused = buckets.filter((_, at) => REFUSED.has(results[at]?.outcome));
  const lost = await readUnattributed(deps.db, refused.map(bucketKey));
  return results.map((result, at) => {
    // Its webhook event comes from the row of the refused request.
    const unattributed = lost.get(result.bucketKey) ?? 0n;
    return leaseMessage(withUnattributed(result, unattributed, budgets[at]?.minimumNanoUsd ?? 0n));
  });
}

const REFUSED = new Set<LeaseOutcome | undefined>(['contended', 'exhausted']);

async function leaseRates(
  { db, turns }: LeaseDeps,
  { rates }: LeaseRequest,
  liveProxies: number,
): Promise<MessageInitShape<typeof RateGrantSchema>[]> {
  const keys = rates.map(
    ({ policyId, counterVersion, subject }) => `rate/${policyId}/${counterVersion}/${subject}`,
  );
  const granted = await turns.run(keys, () => grantRates(db, rates, liveProxies));
  return granted.map((grant, at) => ({ ...grant, minute: rates[at]?.minute ?? 0n }));
}

async function leaseAccounts(
  { db, turns }: LeaseDeps,
  { producerId, accounts }: LeaseRequest,
): Promise<MessageInitShape<typeof AccountGrantSchema>[]> {
  const calls = accounts.map((call) => connectorCall(producerId, call));
  const keys = calls.map(({ connectorId }) => `account/${connectorId}`);
  const grants = await turns.run(keys, () => grantAccounts(db, calls));
  return grants.map(({ slot, granted, left, retryMs }) => ({
    slot: BigInt(slot),
    granted,
    retryMs,
    ...(left.requests !== undefined && { requestsLeft: BigInt(left.requests) }),
    ...(left.tokens !== undefined && { tokensLeft: BigInt(left.tokens) }),
  }));
}

function connectorCall(producerId: string, call: AccountMessage): ConnectorCall {
  const { connectorId, waiting, corrections, vendorLeft, refusedMs } = call;
  return {
    connectorId,
    producerId,
    waiting: waiting.slice(0, MAX_WAITING_PER_CALL).map(({ priority, tokens, stays }) => ({
      priority: Math.min(priority, MAX_PRIORITY),
      tokens: Number(tokens),
      stays,
    })),
    corrections: corrections.map(({ slot, requests, tokens }) => ({
      slot: Number(slot),
      requests: Number(requests),
      tokens: Number(tokens),
    })),
    vendorLeft: vendorLeft && {
      requests: leftOfLimit(vendorLeft.requests),
      tokens: leftOfLimit(vendorLeft.tokens),
    },
    refusedMs,
  };
}

function leftOfLimit(said: LeftOfLimit | undefined) {
  return said && { left: Number(said.left), resetMs: said.resetMs };
}

function bucketOf({ bucket }: BudgetCall): BucketRef {
  if (!bucket) throw new AppError('invalid_request', 'invalid_lease', 'A lease call names no bucket.');
  return bucket;
}

function tooManyBuckets(): AppError {
  const message = `A lease request may contain at most ${MAX_BUCKETS_PER_CALL} buckets, and as many rates.`;
  return new AppError('invalid_request', 'too_many_leases', message);
}

/** Deletes the rate counters of minutes that ended an hour ago; a phase shifts a minute by at most one. */
export async function pruneOldRates(db: Database, now: Date): Promise<void> {
  await pruneRates(db, BigInt(Math.floor(now.getTime() / 60_000) - 60));
}
