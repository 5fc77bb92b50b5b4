import type { MessageInitShape } from '@bufbuild/protobuf';
import { type BucketRef, type CountUnit, furtherLimitId } from '@weighbridge/budget';
import { Enforcement, type FurtherLimitSchema, UnknownAttribution } from '@weighbridge/contracts';
import { everyMs, type LimitWindow } from '@weighbridge/domain';

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
  /** Null: it limits no money. */
  readonly limit_nano_usd: string | null;
  /** Null: it does not limit these. Absent in limits of a release that knew none. */
  readonly limit_requests?: number | null;
  readonly limit_tokens?: number | null;
  /** Null: it does not limit these. Absent as above. */
  readonly requests_per_minute?: number | null;
  readonly tokens_per_minute?: number | null;
  readonly max_parallel?: number | null;
  readonly window_kind: LimitWindow['window_kind'];
  /** The length of windows that open on first use: `5h`. */
  readonly window_every?: string | null;
  readonly timezone: string;
  readonly enforcement: 'enforce' | 'shadow' | 'off';
  readonly thresholds: readonly number[];
  readonly max_counters: number;
  /** Of the counter `others`. */
  readonly others_limit_nano_usd: string | null;
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

/** What its amounts are of; undefined: money. */
function unitsOf({ limit_nano_usd, limit_requests, limit_tokens }: LimitColumn): (CountUnit | undefined)[] {
  const units: (CountUnit | undefined)[] = limit_nano_usd === null ? [] : [undefined];
  if (typeof limit_requests === 'number') units.push('requests');
  if (typeof limit_tokens === 'number') units.push('tokens');
  return units;
}

/** Whether it limits what passes per minute or at the same time. */
export function hasRates({ requests_per_minute, tokens_per_minute, max_parallel }: LimitColumn): boolean {
  return typeof (requests_per_minute ?? tokens_per_minute ?? max_parallel) === 'number';
}

/** The `policyId` of its buckets: one for each amount. */
export function bucketIdsOf(policyId: string, limit: LimitColumn): string[] {
  return unitsOf(limit).map((unit) => furtherLimitId(policyId, limit.id, unit));
}

/** An amount of a further limit, or its rates, as it applies to one key now. */
export interface LimitCounter {
  readonly limit: LimitColumn;
  /** It is of the rates, which have no window. */
  readonly isOfRates?: boolean;
  readonly bucket: BucketRef;
  readonly window: { readonly end: Date | null };
}

export function limitMessage(
  { limit, bucket, window: { end }, isOfRates = false }: LimitCounter,
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
    ...(isOfRates
      ? ratesMessage(limit)
      : limit.window_every != null && { firstUseMs: BigInt(everyMs(limit.window_every)) }),
  };
}

function ratesMessage({ requests_per_minute, tokens_per_minute, max_parallel, max_counters }: LimitColumn) {
  return {
    ...(requests_per_minute != null && { requestsPerMinute: requests_per_minute }),
    ...(tokens_per_minute != null && { tokensPerMinute: BigInt(tokens_per_minute) }),
    ...(max_parallel != null && { maxParallel: max_parallel }),
    maxCounters: max_counters,
  };
}

const UNKNOWN = {
  share: UnknownAttribution.SHARE,
  refuse: UnknownAttribution.REFUSE,
  skip: UnknownAttribution.SKIP,
};

/** What keys are told of it, but for its window: amounts they learn with their leases, but not rates. */
export function structureOfLimit(limit: LimitColumn): readonly unknown[] {
  const { id, name, counter_version, models, when, counter_scope, unknown, enforcement } = limit;
  const units = unitsOf(limit);
  const isOfMoney = units.length === 1 && units[0] === undefined;
  const parts = [
    id,
    name,
    counter_version,
    models,
    Object.entries(when),
    counter_scope,
    unknown,
    enforcement,
  ];
  if (hasRates(limit)) {
    const { requests_per_minute, tokens_per_minute, max_parallel, max_counters } = limit;
    return [...parts, units, [requests_per_minute, tokens_per_minute, max_parallel, max_counters]];
  }
  return isOfMoney ? parts : [...parts, units];
}
