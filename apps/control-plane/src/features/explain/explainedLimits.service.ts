import { create } from '@bufbuild/protobuf';
import { type BucketRef, bucketKey, type CountUnit, unitOf } from '@weighbridge/budget';
import { FurtherLimitSchema, PolicyCounterSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { type LockedAttribution, microFromNano, type NanoUsd, parseAttribution } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type OverrideInForce, overrideKey, readBucketsSpent, readOverrides } from '@weighbridge/ledger';
import {
  isWhen,
  type LimitCounter,
  type LimitMatch,
  limitMessage,
  matchingLimit,
  matchingRates,
} from '@weighbridge/state';
import { limitOf } from '../policies/limitOverride.ts';
import type { Counter } from '../policies/policies.service.ts';
import type { ExplainedBudget, ExplainedLimit, ExplainRequest } from './explain.schemas.ts';

/** Whose request is explained. */
export interface ExplainedCaller {
  readonly counters: readonly Counter[];
  /** Undefined: any key under these policies. */
  readonly key: { readonly id: string; readonly attribution: LockedAttribution } | undefined;
}

export interface ExplainedLimits {
  readonly budgets: ExplainedBudget[];
  /** Those of the further limits that count attempts on the model. */
  on(model: string): ExplainedLimit[];
}

type Effect = ExplainedLimit['effect'];

interface Found {
  readonly policyId: string;
  readonly counter: LimitCounter;
  readonly limit: LimitMatch;
  readonly effect: Effect;
  readonly value: string | undefined;
  /** Undefined: no counter, or that of an unknown key. */
  readonly bucket: BucketRef | undefined;
}

/** Which limits a request meets, by the rules of the proxies, with what is left of each. */
export async function explainLimits(
  db: Database,
  { counters, key }: ExplainedCaller,
  request: ExplainRequest,
  now: Date,
): Promise<ExplainedLimits> {
  const attribution = parseAttribution(headersOf(request), key?.attribution);
  const found = counters.flatMap(({ policy, limits }, at) =>
    limits.flatMap((counter): Found[] => {
      const message = create(FurtherLimitSchema, limitMessage(counter, now));
      const owner = { counter: create(PolicyCounterSchema), isGoverning: at === 0, keyId: key?.id ?? '' };
      const amount = matchingLimit(message, owner);
      const limit = amount ?? matchingRates(message, owner.keyId);
      if (!limit) return [];
      const shared = { policyId: policy.id, counter, limit };
      const none = { ...shared, value: undefined, bucket: undefined };
      if (!isWhen(limit, attribution)) return [{ ...none, effect: 'none' }];
      try {
        const of = limit.counterOf(attribution);
        if (!of) return [{ ...none, effect: 'none' }];
        // What is left of a minute is known at the proxies alone.
        const bucket = isKnown(counter.limit.counter_scope, key) ? amount?.budgetOf(of).bucket : undefined;
        return [{ ...shared, effect: 'counts', value: of.value, bucket }];
      } catch (error) {
        if (error instanceof AppError) return [{ ...none, effect: 'refuses' }];
        throw error;
      }
    }),
  );
  const main = counters.flatMap(({ policy, bucket }) => (isKnown(policy.counter_scope, key) ? [bucket] : []));
  const spent = await readBucketsSpent(db, [...main, ...found.flatMap(({ bucket }) => bucket ?? [])]);
  const overrides = await readOverrides(db, main, now);
  return {
    budgets: counters.map((counter) => budgetOf(counter, spent, overrides)),
    on: (model) => found.filter(({ limit }) => limit.counts(model)).map((one) => limitWith(one, spent)),
  };
}

/** Whose counter it is can be told without a key, unless it is a key's or a principal's. */
function isKnown(scope: string, key: ExplainedCaller['key']): boolean {
  return key !== undefined || (scope !== 'key' && scope !== 'principal');
}

type Spent = ReadonlyMap<string, NanoUsd>;

function budgetOf(
  { policy, bucket, window }: Counter,
  spent: Spent,
  overrides: ReadonlyMap<string, OverrideInForce>,
): ExplainedBudget {
  return {
    policy_id: policy.id,
    counter_scope: policy.counter_scope,
    enforcement: policy.enforcement,
    ...figures(limitOf(policy, overrides.get(overrideKey(bucket))), spent.get(bucketKey(bucket))),
    reset: window.end?.toISOString() ?? null,
  };
}

function limitWith({ policyId, counter, effect, value, bucket }: Found, spent: Spent): ExplainedLimit {
  const { limit, window, isOfRates = false } = counter;
  const unit = unitOf(counter.bucket);
  const used = bucket && spent.get(bucketKey(bucket));
  const nanoUsd = unit === undefined && !isOfRates ? BigInt(limit.limit_nano_usd ?? 0) : null;
  return {
    policy_id: policyId,
    limit_id: limit.id,
    name: limit.name,
    counter_scope: limit.counter_scope,
    when: { ...limit.when },
    enforcement: limit.enforcement,
    effect,
    value: value ?? null,
    ...figures(nanoUsd, unit === undefined ? used : undefined),
    ...countFigures('requests', limit.limit_requests, unit, used),
    ...countFigures('tokens', limit.limit_tokens, unit, used),
    requests_per_minute: (isOfRates && limit.requests_per_minute) || null,
    tokens_per_minute: (isOfRates && limit.tokens_per_minute) || null,
    max_parallel: (isOfRates && limit.max_parallel) || null,
    reset: window.end?.toISOString() ?? null,
  };
}

function figures(limit: bigint | null, spent: bigint | undefined) {
  return {
    limit_micro_usd: limit === null ? null : microFromNano(limit),
    spent_micro_usd: spent === undefined ? null : microFromNano(spent),
    headroom_micro_usd:
      limit === null || spent === undefined ? null : Math.max(0, microFromNano(limit - spent)),
  };
}

/** Those of an amount in requests or tokens: null where the counter is of another unit. */
function countFigures<Unit extends CountUnit>(
  of: Unit,
  limit: number | null | undefined,
  unit: CountUnit | undefined,
  used: bigint | undefined,
) {
  const amount = unit === of ? (limit ?? null) : null;
  const headroom = amount === null || used === undefined ? null : Math.max(0, amount - Number(used));
  return { [`limit_${of}`]: amount, [`headroom_${of}`]: headroom } as {
    [Name in `limit_${Unit}` | `headroom_${Unit}`]: number | null;
  };
}

/** The request's attribution as its headers would say it. */
function headersOf({ attribution, session_id, workload_type }: ExplainRequest): Record<string, string> {
  const { labels = {}, ...texts } = attribution ?? {};
  const said: Record<string, string | undefined> = {
    ...texts,
    'session-id': session_id,
    'workload-type': workload_type,
    labels: Object.entries(labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(),
  };
  const headers: Record<string, string> = {};
  for (const [name, text] of Object.entries(said)) {
    // As Node decodes the bytes of a header.
    if (text) headers[`x-svc-${name}`] = Buffer.from(text).toString('latin1');
  }
  return headers;
}
