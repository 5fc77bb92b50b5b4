import { type BucketRef, bucketAt, keySubject, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import { isId, nanoFromMicro, newId, type Window, windowAt } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import {
  findBindingPolicies,
  findGoverningPolicy,
  findParents,
  findPolicy,
  type GovernedBy,
  type GoverningPolicy,
  insertPolicy,
  type PolicyRow,
} from './policies.repository.ts';
import { MAX_REPLACEMENTS } from './policies.ts';

export { findPoliciesById, findPolicy, findPolicyOfMembers } from './policies.repository.ts';
export type { GoverningPolicy, PolicyRow };

/** The fields of a key that decide which counters its spend goes to. */
export interface CountedKey {
  readonly policy_id: string | null;
  readonly principal_id: string;
  readonly kind: 'service' | 'user';
  /** Null: it has no counter yet. */
  readonly counter_key_id: string | null;
}

export interface Counter {
  readonly policy: PolicyRow;
  readonly bucket: BucketRef;
  readonly window: Window;
}

export async function governingPolicy(db: Database, key: GovernedBy): Promise<GoverningPolicy | undefined> {
  return await findGoverningPolicy(db, key);
}

export async function policyExists(db: Database, id: string): Promise<boolean> {
  return isId('pol', id) && (await findPolicy(db, id)) !== undefined;
}

/** What a key's requests count against. */
export interface KeyCounters {
  readonly governing: GoverningPolicy;
  /** The governing policy's first, then those of its parents and of the teams of its principal. Each policy is there once. */
  readonly counters: [Counter, ...Counter[]];
  /** The team of its principal. */
  readonly team: { readonly id: string; readonly isFrozen: boolean } | undefined;
}

/** What its requests count against once the budget of its governing policy is used up. */
export interface Replacement {
  readonly profileId: string;
  /** As in KeyCounters: that of the policy that governs then comes first. */
  readonly counters: readonly Counter[];
}

/** The counters of a key at `now`. Throws if no policy governs the key. */
export async function countersOfKey(db: Database, key: CountedKey, now: Date): Promise<KeyCounters> {
  const governing = await findGoverningPolicy(db, {
    policyId: key.policy_id,
    principalId: key.principal_id,
    kind: key.kind,
  });
  if (!governing) throw new Error('the key has no governing policy');
  const binding = await findBindingPolicies(db, governing.id, key.principal_id);
  const others = new Map(binding.map((policy) => [policy.id, policy]));
  others.delete(governing.id);
  const { team_id: teamId, team_frozen: isFrozen } =
    binding[0] ?? raise(new Error('the policy is not there'));
  return {
    governing,
    counters: [
      counterOf(governing, key, now),
      ...[...others.values()].map((policy) => counterOf(policy, key, now)),
    ],
    team: teamId === null ? undefined : { id: teamId, isFrozen },
  };
}

/**
 * What governs a key in place of its governing policy once that one's budget is used up, then what governs in place of that, and
 * so on. The parents of those that were replaced still count, and so do the policies of teams.
 */
export async function replacementsOf(
  db: Database,
  governing: PolicyRow,
  key: CountedKey,
  now: Date,
): Promise<Replacement[]> {
  const replacements: Replacement[] = [];
  const replacedIds: string[] = [];
  let current = governing;
  while (current.exhausted_policy_id !== null && current.exhausted_profile_id !== null) {
    if (replacements.length === MAX_REPLACEMENTS) break;
    replacedIds.push(current.id);
    const { exhausted_policy_id: id, exhausted_profile_id: profileId } = current;
    const binding = await findBindingPolicies(db, id, key.principal_id, replacedIds);
    const [next] = binding;
    if (next?.id !== id) throw new Error('the policy that replaces another is not there');
    const each = [...new Map(binding.map((policy) => [policy.id, policy])).values()];
    replacements.push({ profileId, counters: each.map((policy) => counterOf(policy, key, now)) });
    current = next;
  }
  return replacements;
}

/** A policy and its parents, nearest first; undefined if there is no policy with this id. */
export async function policyChain(
  db: Database,
  id: string,
): Promise<readonly [PolicyRow, ...PolicyRow[]] | undefined> {
  const policy = isId('pol', id) ? await findPolicy(db, id) : undefined;
  return policy && [policy, ...(await findParents(db, id))];
}

/** The default policy of a new database: ten dollars a month for each principal. */
export async function createStarterPolicy(tx: Tx, now: Date): Promise<PolicyRow> {
  return await insertPolicy(tx, {
    id: newId('pol'),
    name: 'default',
    limit_nano_usd: nanoFromMicro(10_000_000),
    window_kind: 'month',
    timezone: 'UTC',
    counter_scope: 'principal',
    counter_since: now,
    enforcement: 'enforce',
    default_for: 'all',
    created_at: now,
    updated_at: now,
  });
}

function counterOf(policy: PolicyRow, key: CountedKey, now: Date): Counter {
  const window = windowAt(policy.window_kind, policy.timezone, now);
  const counter = {
    policyId: policy.id,
    counterVersion: policy.counter_version,
    subject: subjectOf(policy, key),
  };
  return { policy, bucket: bucketAt(counter, window.start), window };
}

function subjectOf(policy: PolicyRow, key: CountedKey): string {
  switch (policy.counter_scope) {
    case 'key':
      return keySubject(key.counter_key_id ?? '');
    case 'principal':
      return principalSubject(key.principal_id);
    case 'policy':
      return POLICY_SUBJECT;
  }
}
