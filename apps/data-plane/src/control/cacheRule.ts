import { type CacheRule as CacheMessage, CacheScope } from '@weighbridge/contracts';
import type { CacheSetting } from '@weighbridge/domain';

/** What the control plane tells of a policy or a profile. */
export function cacheSetting({ scope, ttlSeconds }: CacheMessage): CacheSetting {
  return { scope: scope === CacheScope.POLICY ? 'policy' : 'principal', ttlMs: ttlSeconds * 1_000 };
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

interface Asker {
  readonly principalId: string;
  /** Of the nearest of its policies that says something. */
  readonly cache: PolicyCacheSetting | undefined;
}

/**
 * Either a policy or the profile that is asked for turns the cache on. Where both speak, the stricter of them holds, in
 * each of its parts. Principals share answers only where a policy says so: a profile may be asked for by anybody.
 */
export function cacheRule(
  { cache: ofPolicy, principalId }: Asker,
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
