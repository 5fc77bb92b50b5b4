import { type BucketRef, bucketAt, keySubject, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import type { Policies, Tx } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';
import { type Selectable, sql } from 'kysely';
import { lockCounters } from '../buckets/lockCounters.ts';

/** An event or a correction: who pays, when, and on which counters. */
export interface Counted {
  readonly row: { readonly key_id: string; readonly principal_id: string; readonly admitted_at: Date };
  /** The buckets that it was admitted on. */
  readonly buckets: readonly BucketRef[];
}

type CounterScope = Policies['counter_scope'];
type CounterPolicy = Pick<
  Selectable<Policies>,
  'id' | 'counter_version' | 'counter_scope' | 'counter_since' | 'window_kind' | 'timezone'
>;

export interface NewerCounters<T> {
  /** For each of what is counted whose policies have newer counters than those it was admitted on: their buckets. It counts in both. */
  readonly of: ReadonlyMap<T, BucketRef[]>;
  /** Whether the bucket's policy has a newer counter. */
  isReplaced(bucket: BucketRef): boolean;
}

/** Takes `lockCounters` shared, so call it first in a transaction. */
export async function findNewerCounters<T extends Counted>(
  tx: Tx,
  counted: readonly T[],
): Promise<NewerCounters<T>> {
  await lockCounters(tx, 'shared');
  // Many events share their buckets.
  const chains = new Set(counted.map(({ buckets }) => buckets));
  const policies = await findCounterPolicies(tx, chains);
  // Usually no policy has changed lately, and no further query is needed.
  const isReplaced = ({ policyId, counterVersion }: BucketRef) =>
    (policies.get(policyId)?.counter_version ?? 0) > counterVersion;
  const lateChains = new Set([...chains].filter((buckets) => buckets.some(isReplaced)));
  const late = lateChains.size === 0 ? [] : counted.filter(({ buckets }) => lateChains.has(buckets));
  const counterKeys = await findCounterKeys(
    tx,
    late.map(({ row }) => row.key_id),
  );
  const of = new Map(
    late.map((one) => [
      one,
      followed(one, policies).map((policy) => {
        const subject = {
          key: keySubject(counterKeys.get(one.row.key_id) ?? one.row.key_id),
          principal: principalSubject(one.row.principal_id),
          policy: POLICY_SUBJECT,
        }[policy.counter_scope satisfies CounterScope];
        const counter = { policyId: policy.id, counterVersion: policy.counter_version, subject };
        return bucketAt(counter, windowOf(policy, one.row.admitted_at));
      }),
    ]),
  );
  return { of, isReplaced };
}

/** The policies whose current counter is newer than those it was admitted on, and covers its time of admission. */
function followed(
  { buckets, row: { admitted_at: admittedAt } }: Counted,
  policies: ReadonlyMap<string, CounterPolicy>,
): CounterPolicy[] {
  const versions = new Map<string, number>();
  for (const { policyId, counterVersion } of buckets) {
    versions.set(policyId, Math.max(versions.get(policyId) ?? 0, counterVersion));
  }
  return [...versions].flatMap(([policyId, version]) => {
    const policy = policies.get(policyId);
    if (!policy || policy.counter_version <= version) return [];
    // A counter starts with the window of its creation. In earlier windows it would hold only the late events.
    return windowOf(policy, admittedAt) < windowOf(policy, policy.counter_since) ? [] : [policy];
  });
}

function windowOf(policy: CounterPolicy, at: Date): Date {
  return windowAt(policy.window_kind satisfies WindowKind, policy.timezone, at).start;
}

async function findCounterPolicies(
  tx: Tx,
  chains: Iterable<Counted['buckets']>,
): Promise<Map<string, CounterPolicy>> {
  const ids = new Set<string>();
  for (const buckets of chains) for (const { policyId } of buckets) ids.add(policyId);
  const rows = await tx
    .selectFrom('policies')
    .select(['id', 'counter_version', 'counter_scope', 'counter_since', 'window_kind', 'timezone'])
    .where(sql<boolean>`id = ANY(${[...ids]}::text[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

async function findCounterKeys(tx: Tx, keyIds: readonly string[]): Promise<Map<string, string>> {
  if (keyIds.length === 0) return new Map();
  const rows = await tx
    .selectFrom('keys')
    .select(['id', 'counter_key_id'])
    .where(sql<boolean>`id = ANY(${[...new Set(keyIds)]}::text[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row.counter_key_id]));
}
