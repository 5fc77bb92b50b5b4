import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type BudgetCallSchema,
  type BudgetLease,
  BudgetLease_Outcome,
  type BudgetLeaseSchema,
} from '@weighbridge/contracts';
import type { LeaseOutcome, LeaseResult } from './decision/decideGrant.ts';
import type { BucketFigures, Lease } from './holder/lease.ts';

/** The most buckets in one call, of budgets and of rates each. Both ends keep to it. */
export const MAX_BUCKETS_PER_CALL = 500;

// Both ends of a lease call. A call needs no reader: a BudgetCall is a GrantWanted, and its bucket a BucketRef.

/** The holder's call: it asks for at least `minimum`; with 0, it only reports what was returned. */
export function callMessage(
  lease: Lease,
  seq: bigint,
  minimum: bigint,
): MessageInitShape<typeof BudgetCallSchema> {
  const burn = lease.burnPerSecond;
  return {
    bucket: lease.bucket,
    seq,
    returnedNanoUsd: lease.returned,
    minimumNanoUsd: minimum,
    standingNanoUsd: lease.standing,
    ...(burn !== undefined && { burnNanoUsdPerSecond: burn }),
    ...(lease.keyId !== undefined && { keyId: lease.keyId }),
  };
}

/** The control plane's response to a call. */
export function leaseMessage(result: LeaseResult): MessageInitShape<typeof BudgetLeaseSchema> {
  return {
    seq: result.seq,
    grantedNanoUsd: result.grantedNanoUsd,
    spentNanoUsd: result.spentNanoUsd,
    leasedNanoUsd: result.leasedNanoUsd,
    standingNanoUsd: result.standingNanoUsd,
    outcome: OUTCOMES[result.outcome],
    ...(result.limitNanoUsd !== null && { limitNanoUsd: result.limitNanoUsd }),
  };
}

/** What the response says of the bucket. */
export function figuresOf(message: BudgetLease, askedAtMs: number): BucketFigures {
  return {
    limitNanoUsd: message.limitNanoUsd,
    spentNanoUsd: message.spentNanoUsd,
    leasedNanoUsd: message.leasedNanoUsd,
    // A later release may have others.
    outcome: OUTCOME_OF.get(message.outcome) ?? 'granted',
    askedAtMs,
  };
}

const OUTCOMES: Record<LeaseOutcome, BudgetLease_Outcome> = {
  granted: BudgetLease_Outcome.GRANTED,
  partly: BudgetLease_Outcome.GRANTED,
  // The cumulative figure includes what the first call was granted.
  repeated: BudgetLease_Outcome.GRANTED,
  exhausted: BudgetLease_Outcome.EXHAUSTED,
  contended: BudgetLease_Outcome.CONTENDED,
  replaced: BudgetLease_Outcome.OVER,
  closed: BudgetLease_Outcome.CLOSED,
  others: BudgetLease_Outcome.OTHERS,
};

const OUTCOME_OF = new Map<BudgetLease_Outcome, LeaseOutcome>([
  [BudgetLease_Outcome.EXHAUSTED, 'exhausted'],
  [BudgetLease_Outcome.CONTENDED, 'contended'],
  [BudgetLease_Outcome.OVER, 'replaced'],
  [BudgetLease_Outcome.CLOSED, 'closed'],
  [BudgetLease_Outcome.OTHERS, 'others'],
]);
