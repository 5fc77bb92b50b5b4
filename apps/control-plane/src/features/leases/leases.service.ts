import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type BucketRef,
  bucketKey,
  type LeaseOutcome,
  leaseMessage,
  MAX_BUCKETS_PER_CALL,
  sliceOf,
  withUnattributed,
} from '@weighbridge/budget';
import type {
  BudgetCall,
  BudgetLeaseSchema,
  LeaseRequest,
  LeaseResponseSchema,
  RateGrantSchema,
} from '@weighbridge/contracts';
import { type Database, isStatementTimeout } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import { answerLeaseCalls, grantRates, pruneRates, readUnattributed } from '@weighbridge/ledger';
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
  if (Math.max(request.budgets.length, request.rates.length) > MAX_BUCKETS_PER_CALL) throw tooManyBuckets();
  const liveProxies = Math.max(1, await deps.countLive());
  const [budgets, rates] = await Promise.all([
    leaseBudgets(deps, request, liveProxies),
    leaseRates(deps, request, liveProxies),
  ]).catch((error) => {
    throw isStatementTimeout(error) ? budgetBusy(error) : error;
  });
  return { budgets, rates };
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
