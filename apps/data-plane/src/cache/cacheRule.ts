import type { ResolvedKey } from '../control/resolvedKey.ts';

/** What a policy or a profile says of the response cache. */
export interface CacheSetting {
  readonly scope: 'principal' | 'policy';
  readonly ttlMs: number;
}

/** A policy's own, and whose it is. */
export interface PolicyCacheSetting extends CacheSetting {
  readonly policyId: string;
}

/** What holds for one request. */
export interface CacheRule {
  /** Whose answers it may get, and who may get its. */
  readonly sharedBy: { readonly kind: CacheSetting['scope']; readonly id: string };
  readonly ttlMs: number;
}

/**
 * Either a policy or the profile that is asked for turns the cache on. Where both speak, the stricter of them holds, in
 * each of its parts. Principals share answers only where a policy says so: a profile may be asked for by anybody.
 */
export function cacheRule(
  { cache: ofPolicy, principalId }: Pick<ResolvedKey, 'cache' | 'principalId'>,
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
