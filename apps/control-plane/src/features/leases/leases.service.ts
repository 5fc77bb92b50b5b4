import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type BudgetCall,
  BudgetLease_Outcome,
  type BudgetLeaseSchema,
  type LeaseRequest,
  type LeaseResponseSchema,
  type RateGrantSchema,
} from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import {
  answerLeaseCalls,
  type BucketRef,
  bucketKey,
  type LeaseOutcome,
  type LeaseResult,
  MAX_LEASE_CALLS,
  readHeadroom,
  readUnattributed,
} from '@weighbridge/ledger';
import { forgetRates, grantRates } from './rates.repository.ts';

export interface LeaseDeps {
  readonly db: Database;
  readonly now: () => Date;
  /** How many proxies share the budgets. */
  readonly countLive: () => Promise<number>;
  /** Asks all proxies to give back what lies idle of these buckets. */
  readonly recall: (buckets: readonly BucketRef[]) => Promise<void>;
}

/** Grants a proxy what it asks for of its budgets and rates, as far as there is room. */
export async function lease(
  deps: LeaseDeps,
  request: LeaseRequest,
): Promise<MessageInitShape<typeof LeaseResponseSchema>> {
  if (request.rates.length > MAX_LEASE_CALLS) throw tooManyCalls();
  const liveProxies = BigInt(Math.max(1, await deps.countLive()));
  const [budgets, rates] = await Promise.all([
    leaseBudgets(deps, request, liveProxies),
    leaseRates(deps, request, liveProxies),
  ]);
  return { budgets, rates };
}

async function leaseBudgets(
  deps: LeaseDeps,
  { producerId, epoch, budgets }: LeaseRequest,
  liveProxies: bigint,
): Promise<MessageInitShape<typeof BudgetLeaseSchema>[]> {
  if (budgets.length === 0) return [];
  if (budgets.length > MAX_LEASE_CALLS) throw tooManyCalls();
  const buckets = budgets.map(bucketOf);
  const rooms = await readHeadroom(deps.db, buckets);
  const answers = await answerLeaseCalls(deps.db, {
    producerId,
    epoch,
    now: deps.now(),
    calls: budgets.map((call, at) => {
      const bucket = buckets[at] ?? raise(new Error('every call has a bucket'));
      return {
        bucket,
        seq: call.seq,
        returnedNanoUsd: call.returnedNanoUsd,
        minimumNanoUsd: call.minimumNanoUsd,
        wantNanoUsd: sliceOf(call, rooms.get(bucketKey(bucket)), liveProxies),
      };
    }),
  });
  const contended = buckets.filter((_, at) => answers[at]?.outcome === 'contended');
  if (contended.length > 0) await deps.recall(contended);
  // What lost proxies hold is as good as spent: nobody gives it back, and the usage report has it as spent.
  const refused = buckets.filter((_, at) => REFUSED.has(answers[at]?.outcome));
  const lost = await readUnattributed(deps.db, refused.map(bucketKey));
  return answers.map((answer, at) => {
    const unattributed = lost.get(answer.bucketKey) ?? 0n;
    const message = leaseMessage({
      ...answer,
      spentNanoUsd: answer.spentNanoUsd + unattributed,
      leasedNanoUsd: answer.leasedNanoUsd - unattributed,
    });
    return unattributed > 0n && isExhausted(message, budgets[at]?.minimumNanoUsd ?? 0n)
      ? { ...message, outcome: BudgetLease_Outcome.EXHAUSTED }
      : message;
  });
}

const REFUSED = new Set<LeaseOutcome | undefined>(['contended', 'exhausted']);

function isExhausted(
  { limitNanoUsd, spentNanoUsd = 0n }: MessageInitShape<typeof BudgetLeaseSchema>,
  minimum: bigint,
): boolean {
  return limitNanoUsd !== undefined && spentNanoUsd + minimum > limitNanoUsd;
}

const SLICE_SECONDS = 120n;

/**
 * How much to grant at once: what lasts for two minutes, but never more than half of an even share of the room, so that
 * slices shrink as the limit comes near; a quarter of that while nobody knows how fast it is spent.
 */
export function sliceOf(
  { minimumNanoUsd: minimum, burnNanoUsdPerSecond: burn }: BudgetCall,
  room: bigint | undefined,
  liveProxies: bigint,
): bigint {
  if (minimum === 0n) return 0n;
  if (room === undefined) return minimum;
  const share = burn === undefined ? room / (8n * liveProxies) : room / (2n * liveProxies);
  const slice = burn === undefined || share < burn * SLICE_SECONDS ? share : burn * SLICE_SECONDS;
  return slice > minimum ? slice : minimum;
}

async function leaseRates(
  { db }: LeaseDeps,
  { rates }: LeaseRequest,
  liveProxies: bigint,
): Promise<MessageInitShape<typeof RateGrantSchema>[]> {
  const granted = await grantRates(db, rates, liveProxies);
  return granted.map((grant, at) => ({ ...grant, minute: rates[at]?.minute ?? 0n }));
}

function bucketOf({ bucket }: BudgetCall): BucketRef {
  if (!bucket) throw new AppError('invalid_request', 'invalid_lease', 'A call for a lease names no bucket.');
  const { policyId, counterVersion, subject, windowStartMs } = bucket;
  return { policyId, counterVersion, subject, windowStart: new Date(Number(windowStartMs)) };
}

const OUTCOMES: Record<LeaseOutcome, BudgetLease_Outcome> = {
  granted: BudgetLease_Outcome.GRANTED,
  partly: BudgetLease_Outcome.GRANTED,
  // What it had granted is in the cumulative figure.
  repeated: BudgetLease_Outcome.GRANTED,
  exhausted: BudgetLease_Outcome.EXHAUSTED,
  contended: BudgetLease_Outcome.CONTENDED,
  stale: BudgetLease_Outcome.OVER,
  closed: BudgetLease_Outcome.CLOSED,
};

function leaseMessage(answer: LeaseResult): MessageInitShape<typeof BudgetLeaseSchema> {
  return {
    seq: answer.seq,
    grantedNanoUsd: answer.grantedNanoUsd,
    spentNanoUsd: answer.spentNanoUsd,
    leasedNanoUsd: answer.leasedNanoUsd,
    outcome: OUTCOMES[answer.outcome],
    ...(answer.limitNanoUsd !== null && { limitNanoUsd: answer.limitNanoUsd }),
  };
}

function tooManyCalls(): AppError {
  const message = `A request for leases speaks of at most ${MAX_LEASE_CALLS} counters.`;
  return new AppError('invalid_request', 'too_many_leases', message);
}

/** Counters of minutes that are over for an hour: a phase shifts them by one at most. */
export async function forgetOldRates(db: Database, now: Date): Promise<void> {
  await forgetRates(db, BigInt(Math.floor(now.getTime() / 60_000) - 60));
}
