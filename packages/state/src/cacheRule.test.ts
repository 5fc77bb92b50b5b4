import type { CacheSetting } from '@weighbridge/domain';
import { expect, it } from 'vitest';
import { cacheRule } from './cacheRule.ts';

const principal: CacheSetting = { scope: 'principal', ttlMs: 60_000 };
const policy: CacheSetting = { scope: 'policy', ttlMs: 30_000 };
const own = { kind: 'principal', id: 'alice' };
const shared = { kind: 'policy', id: 'pol_1' };

it.each<[string, CacheSetting | undefined, CacheSetting | undefined, unknown]>([
  ['neither has a setting', undefined, undefined, undefined],
  ['only a policy has one', principal, undefined, { sharedBy: own, ttlMs: 60_000 }],
  ['only a policy has one, shared', policy, undefined, { sharedBy: shared, ttlMs: 30_000 }],
  ['only a profile has one', undefined, principal, { sharedBy: own, ttlMs: 60_000 }],
  ['only a profile has one, shared', undefined, policy, { sharedBy: own, ttlMs: 30_000 }],
  ['the profile is stricter', policy, principal, { sharedBy: own, ttlMs: 30_000 }],
  ['the policy is stricter', principal, policy, { sharedBy: own, ttlMs: 30_000 }],
  ['both are shared', policy, policy, { sharedBy: shared, ttlMs: 30_000 }],
])('%s', (_what, ofPolicy, ofProfile, rule) => {
  const cache = ofPolicy && { ...ofPolicy, policyId: 'pol_1' };
  expect(cacheRule({ cache, principalId: 'alice' }, ofProfile)).toEqual(rule);
});
