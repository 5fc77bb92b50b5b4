import type { MessageInitShape } from '@bufbuild/protobuf';
import type { BucketRef } from '@weighbridge/budget';
import { Enforcement, type FurtherLimitSchema, UnknownAttribution } from '@weighbridge/contracts';
import type { WindowKind } from '@weighbridge/domain';

/** A further limit of a policy, as an item of the JSON column `limits`. Amounts are decimal integers. */
export interface LimitColumn {
  readonly id: string;
  readonly name: string;
  /** Incremented when what it counts changes. It counts from `counter_since` on. */
  readonly counter_version: number;
  readonly counter_since: string;
  readonly models: readonly string[];
  readonly when: Readonly<Record<string, string>>;
  /** `key`, `principal`, `policy`, or the attribution that has counters of its own. */
  readonly counter_scope: string;
  readonly unknown: 'share' | 'refuse' | 'skip';
  readonly limit_nano_usd: string;
  readonly window_kind: WindowKind;
  readonly timezone: string;
  readonly enforcement: 'enforce' | 'shadow' | 'off';
  readonly thresholds: readonly number[];
  readonly max_counters: number;
  /** Of the counter `others`. */
  readonly others_limit_nano_usd: string;
  /** The operator gave it. Else it is that of the other counters. */
  readonly has_own_others: boolean;
}

/** The further limits of a policy, in the order that its operator gave them. */
export function furtherLimits({ limits }: { readonly limits: unknown }): readonly LimitColumn[] {
  return limits as readonly LimitColumn[];
}

/** Whether it has a counter for each value of some attribution. */
export function isByAttribution({ counter_scope: scope }: Pick<LimitColumn, 'counter_scope'>): boolean {
  return scope !== 'key' && scope !== 'principal' && scope !== 'policy';
}

/** A further limit as it applies to one key now. */
export interface LimitCounter {
  readonly limit: LimitColumn;
  readonly bucket: BucketRef;
  readonly window: { readonly end: Date | null };
}

export function limitMessage(
  { limit, bucket, window: { end } }: LimitCounter,
  now: Date,
): MessageInitShape<typeof FurtherLimitSchema> {
  return {
    bucket,
    id: limit.id,
    name: limit.name,
    enforcement: limit.enforcement === 'enforce' ? Enforcement.ENFORCE : Enforcement.SHADOW,
    ...(end && {
      windowEndMs: BigInt(end.getTime()),
      windowRemainingMs: BigInt(Math.max(0, end.getTime() - now.getTime())),
    }),
    models: [...limit.models],
    when: { ...limit.when },
    counterScope: limit.counter_scope,
    unknown: UNKNOWN[limit.unknown],
  };
}

const UNKNOWN = {
  share: UnknownAttribution.SHARE,
  refuse: UnknownAttribution.REFUSE,
  skip: UnknownAttribution.SKIP,
};

/** What keys are told of it, but for its window: amounts they learn with their leases. */
export function structureOfLimit(limit: LimitColumn): readonly unknown[] {
  const { id, name, counter_version, models, when, counter_scope, unknown, enforcement } = limit;
  return [id, name, counter_version, models, Object.entries(when), counter_scope, unknown, enforcement];
}
