import { furtherLimitId, OTHERS_SUBJECT } from '@weighbridge/budget';
import { type NanoUsd, type Window, windowAt } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { furtherLimits, isByAttribution, type LimitColumn, subjectOfValue } from '@weighbridge/state';
import type { PolicyRow } from './policies.repository.ts';

/** Of a value that a request names: it is the longest session id that a proxy's headers can have. */
export const MAX_VALUE_LENGTH = 65_536;

/** What defines counters: a policy, or a further limit of one. */
export interface CounterDefinition {
  /** The `policyId` of its buckets. */
  readonly id: string;
  readonly limit: LimitColumn | undefined;
  readonly counterVersion: number;
  readonly counterScope: string;
  /** Of a window that never ends. */
  readonly countedSince: Date;
  /** The current one. Undefined: each counter has its own, which opens on first use. */
  readonly window: Window | undefined;
  /** Of the counter with this subject, without overrides. Null: unlimited. */
  readonly amountOf: (subject: string) => NanoUsd | null;
}

function definitionOfPolicy(policy: PolicyRow, now: Date): CounterDefinition {
  return {
    id: policy.id,
    limit: undefined,
    counterVersion: policy.counter_version,
    counterScope: policy.counter_scope,
    countedSince: policy.counter_since,
    window: windowAt(policy.window_kind, policy.timezone, now),
    amountOf: () => policy.limit_nano_usd,
  };
}

export function definitionOfLimit(policyId: string, limit: LimitColumn, now: Date): CounterDefinition {
  return {
    id: furtherLimitId(policyId, limit.id),
    limit,
    counterVersion: limit.counter_version,
    counterScope: limit.counter_scope,
    countedSince: new Date(limit.counter_since),
    window: limit.window_kind === 'first_use' ? undefined : windowAt(limit.window_kind, limit.timezone, now),
    amountOf: (subject) => {
      const amount = subject === OTHERS_SUBJECT ? limit.others_limit_nano_usd : limit.limit_nano_usd;
      return amount === null ? null : BigInt(amount);
    },
  };
}

/** Names that fit no counter: of a query they make an invalid request, of a body one that breaks a rule. */
type Misnamed = 'invalid_request' | 'validation';

/** Of a policy, or with `limitId` of this further limit of it, by its id or name. Throws if it has none such. */
export function definitionNamed(
  policy: PolicyRow,
  limitId: string | undefined,
  now: Date,
  misnamed: Misnamed,
): CounterDefinition {
  if (limitId === undefined) return definitionOfPolicy(policy, now);
  const limits = furtherLimits(policy);
  const limit = limits.find(({ id }) => id === limitId) ?? limits.find(({ name }) => name === limitId);
  if (limit) return definitionOfLimit(policy.id, limit, now);
  const names = limits.map(({ name }) => JSON.stringify(name)).join(', ');
  const message = `The policy has no further limit with this id or name. It has ${names || 'none'}.`;
  throw new AppError(misnamed, 'limit_not_found', message, { param: 'limit_id' });
}

/** The subject of the counter for a value of attribution. Throws if there is none. */
export function subjectNamed(
  { limit, counterScope }: Pick<CounterDefinition, 'limit' | 'counterScope'>,
  value: string,
  misnamed: Misnamed,
): string {
  const refuse = (message: string) => {
    return new AppError(misnamed, 'counter_mismatch', message, { param: 'value' });
  };
  if (!limit) throw refuse('Only further limits have counters for values: give limit_id.');
  if (!isByAttribution(limit)) {
    throw refuse(`This limit has a counter for each ${counterScope}, not for values of attribution.`);
  }
  const subject = subjectOfValue(counterScope, value);
  if (subject === undefined) throw refuse('value must have a character that is no space.');
  return subject;
}
