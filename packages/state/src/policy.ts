import { createHash } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { BucketRef } from '@weighbridge/budget';
import {
  BudgetMode,
  Enforcement,
  ForeignObjects,
  type PolicyCounterSchema,
  type PolicySchema,
  Translation,
} from '@weighbridge/contracts';
import { type CacheColumn, cacheMessage, cacheOfColumn } from './cacheRule.ts';
import { furtherLimits, type LimitCounter, limitMessage, structureOfLimit } from './limitColumn.ts';

/** The columns of a policy that proxies need. */
export interface PolicyColumns {
  readonly id: string;
  readonly enforcement: 'enforce' | 'shadow' | 'off';
  readonly budget_mode: 'balanced' | 'hard';
  readonly limit_nano_usd: bigint | null;
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: bigint | null;
  readonly max_parallel: number | null;
  readonly allowed_models: readonly string[];
  readonly hard_allow_fields: readonly string[];
  readonly foreign_objects: 'any' | 'own';
  readonly translation: 'lenient' | 'strict';
  readonly auto_cache: boolean;
  readonly queue_ms: number;
  readonly priority: number;
  /** By header: attribution. */
  readonly attribution_headers: unknown;
  readonly user_from_body: boolean;
  /** A `CacheColumn`; null: none. */
  readonly cache: unknown;
  /** `LimitColumn`s. */
  readonly limits: unknown;
  /** These decide which policies and counters a key has. */
  readonly counter_version: number;
  readonly parent_policy_id: string | null;
  readonly profile_id: string | null;
  readonly exhausted_policy_id: string | null;
  readonly exhausted_profile_id: string | null;
}

/** A policy that counts for a key, and the bucket that the key spends from now. */
export interface CounterColumns {
  readonly policy: PolicyColumns;
  readonly bucket: BucketRef;
  readonly window: { readonly end: Date | null };
  /** The policy's further limits, but for those that are off. */
  readonly limits: readonly LimitCounter[];
}

/** A policy whose settings changed, for the keys that name it. */
export function policyMessage(policy: PolicyColumns): MessageInitShape<typeof PolicySchema> {
  return { id: policy.id, settings: settingsMessage(policy) };
}

/** A policy as it applies to one key now. */
export function counterMessage({ policy, bucket, window, limits }: CounterColumns, now: Date) {
  return {
    ...settingsMessage(policy),
    ...(window.end && {
      windowEndMs: BigInt(window.end.getTime()),
      windowRemainingMs: BigInt(Math.max(0, window.end.getTime() - now.getTime())),
    }),
    bucket,
    limits: limits.map((limit) => limitMessage(limit, now)),
  } satisfies MessageInitShape<typeof PolicyCounterSchema>;
}

/** What a policy says to every key that it counts for: a counter without its bucket and its window. */
function settingsMessage(policy: PolicyColumns) {
  const isLimited = furtherLimits(policy).some(({ enforcement }) => enforcement === 'enforce');
  return {
    enforcement: ENFORCEMENTS[policy.enforcement],
    budgetMode: policy.budget_mode === 'hard' ? BudgetMode.HARD : BudgetMode.BALANCED,
    ...(policy.limit_nano_usd !== null && { limitNanoUsd: policy.limit_nano_usd }),
    ...(policy.requests_per_minute !== null && { requestsPerMinute: policy.requests_per_minute }),
    ...(policy.tokens_per_minute !== null && { tokensPerMinute: policy.tokens_per_minute }),
    ...(policy.max_parallel !== null && { maxParallel: policy.max_parallel }),
    // A proxy that knows no further limits would spend beyond them: it lets no model pass.
    allowedModels: isLimited ? [NO_MODEL] : [...policy.allowed_models],
    ...(isLimited && { allowedModelsBesideLimits: { patterns: [...policy.allowed_models] } }),
    hardAllowFields: [...policy.hard_allow_fields],
    foreignObjects: FOREIGN_OBJECTS[policy.foreign_objects],
    translation: TRANSLATIONS[policy.translation],
    autoCache: policy.auto_cache,
    queueMs: policy.queue_ms,
    priority: policy.priority,
    attributionHeaders: { ...(policy.attribution_headers as Record<string, string>) },
    userFromBody: policy.user_from_body,
    structure: structureOf(policy),
    ...(policy.cache !== null && { cache: cacheMessage(cacheOfColumn(policy.cache as CacheColumn)) }),
  };
}

/** A pattern that no model matches: each has a slash in its name. */
const NO_MODEL = '-';
const ENFORCEMENTS = { enforce: Enforcement.ENFORCE, shadow: Enforcement.SHADOW, off: Enforcement.OFF };
const FOREIGN_OBJECTS = { any: ForeignObjects.ANY, own: ForeignObjects.OWN };
const TRANSLATIONS = { lenient: Translation.LENIENT, strict: Translation.STRICT };

/** Equal while the policy gives its keys the same policies, counters and profile. Never 0. */
function structureOf(policy: PolicyColumns): bigint {
  const { counter_version, parent_policy_id, profile_id, exhausted_policy_id, exhausted_profile_id } = policy;
  const parts = [counter_version, parent_policy_id, profile_id, exhausted_policy_id, exhausted_profile_id];
  const limits = furtherLimits(policy).map(structureOfLimit);
  const text = JSON.stringify(limits.length > 0 ? [...parts, limits] : parts);
  const hash = createHash('sha256').update(text).digest();
  return hash.readBigUInt64LE() || 1n;
}
