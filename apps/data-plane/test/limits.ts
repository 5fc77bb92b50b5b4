import { create } from '@bufbuild/protobuf';
import { AccountBook, type BucketRef, LeaseBook, type LeaseBookDeps, RateBook } from '@weighbridge/budget';
import { BudgetLease_Outcome, LeaseResponseSchema } from '@weighbridge/contracts';

/** The figures of a bucket at the control plane. */
export interface TestBucket {
  readonly limitNanoUsd: bigint;
  readonly spentNanoUsd: bigint;
}

/** Limits whose control plane grants everything that a bucket has left, and all requested rates. */
export function openTestLimits(
  bucketOf: (bucket: BucketRef) => TestBucket | undefined,
  isLive: () => boolean = () => true,
) {
  const call: LeaseBookDeps['call'] = async ({ budgets = [], rates = [] }) =>
    create(LeaseResponseSchema, {
      budgets: budgets.map(({ bucket, seq, minimumNanoUsd = 0n }) => {
        const { limitNanoUsd, spentNanoUsd } = bucketOf(bucket as BucketRef) ?? NOTHING;
        const room = limitNanoUsd - spentNanoUsd;
        const isExhausted = minimumNanoUsd > room;
        const granted = isExhausted ? 0n : room;
        return {
          ...(seq !== undefined && { seq }),
          grantedNanoUsd: granted,
          leasedNanoUsd: granted,
          limitNanoUsd,
          spentNanoUsd,
          outcome: isExhausted ? BudgetLease_Outcome.EXHAUSTED : BudgetLease_Outcome.GRANTED,
        };
      }),
      rates: rates.map(({ minute = 0n, requests = 0n, tokens = 0n }) => ({ minute, requests, tokens })),
    });
  const common = { call, producerId: 'producer', epoch: 'epoch', onShadowRefusal: () => {} };
  const budget = new LeaseBook({
    ...common,
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
    silenceMs: () => 0,
    isLive,
  });
  const rates = new RateBook({
    ...common,
    clockMs: () => Date.now(),
    liveProxies: () => 1,
    isLive: () => true,
  });
  // A single proxy, which asks no one.
  const accounts = new AccountBook({
    ...common,
    nowMs: () => performance.now(),
    liveProxies: () => 1,
    isLive: () => false,
  });
  return { budget, rates, accounts, usualTokens: () => undefined, onReserveExceeded: () => {} };
}

const NOTHING: TestBucket = { limitNanoUsd: 0n, spentNanoUsd: 0n };
