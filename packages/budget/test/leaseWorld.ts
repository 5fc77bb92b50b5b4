import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  BucketRefSchema,
  BudgetLease_Outcome,
  type LeaseRequestSchema,
  type LeaseResponse,
  LeaseResponseSchema,
} from '@weighbridge/contracts';
import { type BucketRef, bucketKey } from '../src/bucketRef.ts';
import { LeaseBook, type LeaseBookDeps } from '../src/holder/leaseBook.ts';
import type { BudgetedPolicy } from '../src/policies.ts';

function bucket(policyId: string): BucketRef {
  return create(BucketRefSchema, { policyId, counterVersion: 1, subject: 'policy', windowStartMs: 0n });
}

/** A policy with a budget. */
export function budgeted(policyId: string, more: Partial<BudgetedPolicy> = {}): BudgetedPolicy {
  const ref = bucket(policyId);
  return {
    bucket: ref,
    bucketKey: bucketKey(ref),
    enforcement: 'enforce',
    isHard: false,
    isGoverning: true,
    windowEndMs: undefined,
    ...more,
  };
}

interface Row {
  granted: bigint;
  returned: bigint;
  settled: bigint;
  seq: bigint;
}

/** The control plane's side of leases, by the rules of docs/budgets.md, in memory. */
export class LeaseWorld {
  readonly limits = new Map<string, bigint>();
  readonly spent = new Map<string, bigint>();
  readonly rows = new Map<string, Map<string, Row>>();
  over = new Set<string>();
  /** By bucket: the keys that may not open it. */
  readonly closedTo = new Map<string, string>();
  /** What each lease may keep while it is idle. */
  standing = 0n;
  isDown = false;
  calls = 0;
  random: () => number = () => 0.5;

  hold(key: string): bigint {
    let sum = 0n;
    for (const row of this.rows.get(key)?.values() ?? []) {
      const hold = row.granted - row.returned - row.settled;
      if (hold > 0n) sum += hold;
    }
    return sum;
  }

  /** The ledger records an attempt of this epoch. */
  record(keys: readonly string[], epoch: string, cost: bigint): void {
    for (const key of keys) {
      this.spent.set(key, (this.spent.get(key) ?? 0n) + cost);
      const row = this.rows.get(key)?.get(epoch);
      if (row) row.settled += cost;
    }
  }

  async call(request: MessageInitShape<typeof LeaseRequestSchema>): Promise<LeaseResponse> {
    this.calls++;
    await Promise.resolve();
    if (this.isDown) throw new Error('the control plane is down');
    const budgets = (request.budgets ?? []).map((call) => {
      const key = bucketKey(call.bucket as BucketRef);
      const rows = this.rows.get(key) ?? new Map<string, Row>();
      this.rows.set(key, rows);
      const epoch = request.epoch ?? '';
      const row = rows.get(epoch) ?? { granted: 0n, returned: 0n, settled: 0n, seq: 0n };
      rows.set(epoch, row);
      const [returned, minimum, seq] = [
        call.returnedNanoUsd ?? 0n,
        call.minimumNanoUsd ?? 0n,
        call.seq ?? 0n,
      ];
      if (returned > row.returned) row.returned = returned;
      const limit = this.limits.get(key) ?? 0n;
      const spent = this.spent.get(key) ?? 0n;
      let outcome: BudgetLease_Outcome = BudgetLease_Outcome.GRANTED;
      if (this.over.has(key)) outcome = BudgetLease_Outcome.OVER;
      else if (this.closedTo.has(key) && this.closedTo.get(key) === call.keyId)
        outcome = BudgetLease_Outcome.OTHERS;
      else if (seq > row.seq && minimum > 0n) {
        const room = limit - spent - this.hold(key);
        const share = room / 4n > minimum ? room / 4n : minimum;
        if (spent + minimum > limit) outcome = BudgetLease_Outcome.EXHAUSTED;
        else if (room < minimum) outcome = BudgetLease_Outcome.CONTENDED;
        else row.granted += share;
      }
      if (seq > row.seq) row.seq = seq;
      return {
        seq,
        grantedNanoUsd: row.granted,
        limitNanoUsd: limit,
        spentNanoUsd: spent,
        leasedNanoUsd: this.hold(key),
        standingNanoUsd: this.standing,
        outcome,
      };
    });
    // Some responses are lost.
    if (this.random() < 0.1) throw new Error('the response was lost');
    return create(LeaseResponseSchema, { budgets });
  }
}

/** A proxy's book. By default its clock advances a millisecond at each reading. */
export function bookOf(world: LeaseWorld, epoch: string, deps: Partial<LeaseBookDeps> = {}): LeaseBook {
  let ms = 0;
  return new LeaseBook({
    call: (request) => world.call(request),
    producerId: 'p',
    epoch,
    nowMs: () => ms++,
    clockMs: () => 0,
    silenceMs: () => 0,
    isLive: () => !world.isDown,
    onShadowRefusal: () => {},
    ...deps,
  });
}

/** What a request wants of headroom, in nano-USD. */
export function wanted(useful: bigint, least: bigint) {
  return { nanoUsd: { useful, least }, tokens: { useful: 1n, least: 1n } };
}

/** Lets running calls finish. */
export const settleDown = () => new Promise<void>((resolve) => setImmediate(resolve));
