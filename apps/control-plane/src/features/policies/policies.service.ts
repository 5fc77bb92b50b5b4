import type { Database, Tx } from '@weighbridge/database';
import { isId, nanoFromMicro, newId, type Window, windowAt } from '@weighbridge/domain';
import { type BucketRef, keySubject, POLICY_SUBJECT, principalSubject } from '@weighbridge/ledger';
import {
  findGoverningPolicy,
  findParents,
  findPolicy,
  type GovernedBy,
  type GoverningPolicy,
  insertPolicy,
  type PolicyRow,
} from './policies.repository.ts';

export type { GoverningPolicy, PolicyRow };

/** What decides which counters a key draws on. */
export interface CountedKey {
  readonly policy_id: string | null;
  readonly principal_id: string;
  readonly kind: 'service' | 'user';
  /** Null: it has no counter yet, so nothing is counted for it alone. */
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

/** The governing policy's counter for a key, then its parents', as they stand at `now`. */
export async function countersOf(
  db: Database,
  key: CountedKey,
  now: Date,
): Promise<{ governing: GoverningPolicy; counters: [Counter, ...Counter[]] }> {
  const governing = await findGoverningPolicy(db, {
    policyId: key.policy_id,
    principalId: key.principal_id,
    kind: key.kind,
  });
  if (!governing) throw new Error('an issued key has no governing policy');
  const parents = await findParents(db, governing.id);
  return {
    governing,
    counters: [counterOf(governing, key, now), ...parents.map((parent) => counterOf(parent, key, now))],
  };
}

/** A policy and its parents, nearest first; undefined where there is none of this id. */
export async function policyChain(
  db: Database,
  id: string,
): Promise<readonly [PolicyRow, ...PolicyRow[]] | undefined> {
  const policy = isId('pol', id) ? await findPolicy(db, id) : undefined;
  return policy && [policy, ...(await findParents(db, id))];
}

/** The policy that a new database starts with: ten dollars a month for each principal. */
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
  const bucket = {
    policyId: policy.id,
    counterVersion: policy.counter_version,
    subject: subjectOf(policy, key),
    windowStart: window.start,
  };
  return { policy, bucket, window };
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
