import type { MessageInitShape } from '@bufbuild/protobuf';
import { type CacheRule as CacheMessage, type CacheRuleSchema, CacheScope } from '@weighbridge/contracts';
import type { CacheSetting } from '@weighbridge/domain';

/** The cache setting of a policy or a profile. */
export function cacheSetting({ scope, ttlSeconds }: CacheMessage): CacheSetting {
  return { scope: scope === CacheScope.POLICY ? 'policy' : 'principal', ttlMs: ttlSeconds * 1_000 };
}

/** The inverse of `cacheSetting`. */
export function cacheMessage({ scope, ttlMs }: CacheSetting): MessageInitShape<typeof CacheRuleSchema> {
  return {
    scope: scope === 'policy' ? CacheScope.POLICY : CacheScope.PRINCIPAL,
    ttlSeconds: Math.round(ttlMs / 1_000),
  };
}

/** The JSON column of a policy or a profile. */
export interface CacheColumn {
  readonly scope: CacheSetting['scope'];
  readonly ttl_seconds: number;
}

export function cacheOfColumn({ scope, ttl_seconds }: CacheColumn): CacheSetting {
  return { scope, ttlMs: ttl_seconds * 1_000 };
}

/** A policy's cache setting, with the policy. */
export interface PolicyCacheSetting extends CacheSetting {
  readonly policyId: string;
}

/** The cache rule of one request. */
export interface CacheRule {
  /** Those who share cached responses with the request. */
  readonly sharedBy: { readonly kind: CacheSetting['scope']; readonly id: string };
  readonly ttlMs: number;
}

interface CachingKey {
  readonly principalId: string;
  /** The setting of the nearest policy that has one. */
  readonly cache: PolicyCacheSetting | undefined;
}

/**
 * Either a policy or the requested profile turns the cache on. If both do, the stricter value of each part applies.
 * Principals share responses only if a policy allows it, because anyone may request a profile.
 */
export function cacheRule(
  { cache: ofPolicy, principalId }: CachingKey,
  ofProfile: CacheSetting | undefined,
): CacheRule | undefined {
  if (!ofPolicy && !ofProfile) return undefined;
  const isShared = ofPolicy?.scope === 'policy' && ofProfile?.scope !== 'principal';
  return {
    sharedBy: isShared ? { kind: 'policy', id: ofPolicy.policyId } : { kind: 'principal', id: principalId },
    ttlMs: Math.min(
      ofPolicy?.ttlMs ?? Number.POSITIVE_INFINITY,
      ofProfile?.ttlMs ?? Number.POSITIVE_INFINITY,
    ),
  };
}
