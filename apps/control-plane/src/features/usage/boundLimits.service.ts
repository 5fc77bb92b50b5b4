import { bucketKey, unitOf } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import {
  compileModelPatterns,
  type LockedAttribution,
  type NanoUsd,
  parseAttribution,
} from '@weighbridge/domain';
import { type OverrideInForce, overrideKey, readCounterUse, readOverrides } from '@weighbridge/ledger';
import { isByAttribution, isWhen, type LimitCounter, subjectIn } from '@weighbridge/state';
import { presentCounter, type UsedCounter } from '../counters/presentCounter.ts';
import { definitionOfLimit } from '../policies/definedCounters.ts';
import type { Counter } from '../policies/policies.service.ts';
import type { UsageLimit } from './usage.schemas.ts';

/** A further limit that counts a key's requests whatever they say, as far as it counts their models. */
export interface BoundLimit extends LimitCounter {
  readonly counter: Counter;
  readonly isParent: boolean;
  /** Its figures are of no others than the caller's policy: not of a parent, and not of a value, which any key may name. */
  readonly isOwn: boolean;
  readonly counts: (model: string) => boolean;
  readonly used: UsedCounter;
  readonly override: OverrideInForce | undefined;
  /** With its override. */
  readonly amount: NanoUsd;
}

interface Limited {
  readonly attribution: unknown;
}

/**
 * The further limits that bind a key's requests whatever these say: by key, principal or policy, and by attribution that the key
 * locks.
 */
export async function boundLimitsOf(
  db: Database,
  counters: readonly [Counter, ...Counter[]],
  { attribution }: Limited,
  now: Date,
): Promise<BoundLimit[]> {
  const locked = parseAttribution({}, attribution as LockedAttribution);
  const found = counters.flatMap((counter) =>
    counter.limits.filter(isReported).flatMap((one) => {
      const subject = subjectIn(one, locked);
      if (subject === undefined || !isWhen({ when: Object.entries(one.limit.when) }, locked)) return [];
      return [{ ...one, bucket: { ...one.bucket, subject }, counter }];
    }),
  );
  if (found.length === 0) return [];
  const buckets = found.map(({ bucket }) => bucket);
  const [uses, overrides] = await Promise.all([readCounterUse(db, buckets), readOverrides(db, buckets, now)]);
  return found.map((one) => {
    const { bucket, limit, counter } = one;
    const use = uses.get(bucketKey(bucket)) ?? { spent: 0n, leased: 0n, lastUsedAt: null };
    const override = overrides.get(overrideKey(bucket));
    return {
      ...one,
      isParent: counter !== counters[0],
      isOwn: counter === counters[0] && !isByAttribution(limit),
      counts: compileModelPatterns(limit.models),
      used: { subject: bucket.subject, ...use },
      override,
      amount: override?.limit ?? BigInt(limit.limit_nano_usd ?? 0),
    };
  });
}

/** Reports are of money, in windows that all counters of a limit share. */
function isReported({ bucket, limit, isOfRates }: LimitCounter): boolean {
  return !isOfRates && unitOf(bucket) === undefined && limit.window_kind !== 'first_use';
}

/** As a usage report has it. */
export function presentBoundLimit(
  { limit, counter, isParent, used, override }: BoundLimit,
  now: Date,
): UsageLimit {
  const { id, name, counter_scope, models, enforcement } = limit;
  const definition = definitionOfLimit(counter.policy.id, limit, now);
  return {
    policy_id: counter.policy.id,
    is_parent: isParent,
    limit_id: id,
    limit_name: name,
    counter_scope,
    models: [...models],
    enforcement,
    ...presentCounter(used, definition, override, undefined),
  };
}

/** What a limit has left, of which leases are not deducted: the key can still spend them. Undefined: it refuses nothing. */
export function remainderOf({ limit, amount, used }: BoundLimit): NanoUsd | undefined {
  if (limit.enforcement !== 'enforce') return undefined;
  return amount > used.spent ? amount - used.spent : 0n;
}

/** Whether it counts every request of its key. */
export function countsAll({ limit }: BoundLimit): boolean {
  return limit.models.every((pattern) => pattern === '*');
}
