import {
  type BucketRef,
  bucketAt,
  furtherLimitId,
  keySubject,
  POLICY_SUBJECT,
  principalSubject,
  UNOPENED_MS,
} from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import { isId, type LimitWindow, nanoFromMicro, newId, type Window, windowAt } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import {
  bucketIdsOf,
  furtherLimits,
  hasRates,
  type LimitColumn,
  type LimitCounter,
} from '@weighbridge/state';
import {
  findGoverningPolicy,
  findKeyGovernance,
  findParents,
  findPolicy,
  type GovernedBy,
  type GoverningPolicy,
  insertPolicy,
  type KeyGovernance,
  type PolicyRow,
} from './policies.repository.ts';
import { type Policies, policiesInForce, replacementsOf } from './policyChains.ts';

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
  /** The policy's further limits, but for those that are off. */
  readonly limits: readonly LimitCounter[];
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
  /** What its requests count against once the budget of its governing policy is used up, then once that one's is. */
  readonly replacements: readonly Replacement[];
}

/** What governs a key in place of a policy whose budget is used up. */
interface Replacement {
  readonly profileId: string;
  /** As in KeyCounters: that of the policy that governs then comes first. */
  readonly counters: readonly Counter[];
}

/** The counters of a key at `now`. Throws if no policy governs the key. */
export async function countersOfKey(db: Database, key: CountedKey, now: Date): Promise<KeyCounters> {
  const [counters] = await countersOfKeys(db, [key], now);
  return counters ?? raise(new Error('the key has no counters'));
}

/** The counters of each key at `now`, in one statement. Throws if no policy governs one of them. */
export async function countersOfKeys(
  db: Database,
  keys: readonly CountedKey[],
  now: Date,
): Promise<KeyCounters[]> {
  const { governance, policies: rows } = await findKeyGovernance(
    db,
    keys.map(({ policy_id, principal_id, kind }) => ({
      policyId: policy_id,
      principalId: principal_id,
      kind,
    })),
  );
  const policies = new Map(rows.map((policy) => [policy.id, policy]));
  const windows = new Windows(now);
  return keys.flatMap((key, at) => {
    const found = governance[at];
    return found ? [countersBy(policies, windows, key, found)] : [];
  });
}

function countersBy(
  policies: Policies,
  windows: Windows,
  key: CountedKey,
  { governing_id, source, team_id, team_frozen, team_policy_ids }: KeyGovernance,
): KeyCounters {
  const row = policies.get(governing_id ?? '');
  if (!row) throw new Error('the key has no governing policy');
  const governing = { ...row, source };
  const governed = { governing: row, teamPolicyIds: team_policy_ids };
  const [, ...others] = policiesInForce(policies, governed);
  return {
    governing,
    counters: [counterOf(row, key, windows), ...others.map((policy) => counterOf(policy, key, windows))],
    team: team_id === null ? undefined : { id: team_id, isFrozen: team_frozen },
    replacements: replacementsOf(policies, governed).map(({ profileId, policies: inForce }) => ({
      profileId,
      counters: inForce.map((policy) => counterOf(policy, key, windows)),
    })),
  };
}

/** A policy and its parents, nearest first; undefined if there is no policy with this id. */
export async function policyChain(
  db: Database,
  id: string,
): Promise<readonly [PolicyRow, ...PolicyRow[]] | undefined> {
  const policy = isId('pol', id) ? await findPolicy(db, id) : undefined;
  return policy && [policy, ...(await findParents(db, id))];
}

/** The counters of these policies at `now`, for no key: those of keys and principals have the subject of none. */
export function countersWithoutKey(policies: readonly PolicyRow[], now: Date): Counter[] {
  const windows = new Windows(now);
  const key = { policy_id: null, principal_id: '', kind: 'service', counter_key_id: null } as const;
  return policies.map((policy) => counterOf(policy, key, windows));
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

function counterOf(policy: PolicyRow, key: CountedKey, windows: Windows): Counter {
  const window = windows.of(policy);
  const counter = {
    policyId: policy.id,
    counterVersion: policy.counter_version,
    subject: subjectOf(policy.counter_scope, key),
  };
  const limits = furtherLimits(policy).filter(({ enforcement }) => enforcement !== 'off');
  return {
    policy,
    bucket: bucketAt(counter, window.start),
    window,
    limits: limits.flatMap((limit) => limitCounters(policy, limit, key, windows)),
  };
}

/** One for each amount, and one for the rates. If the limit is by attribution, its bucket has the subject of no attempt yet. */
function limitCounters(
  policy: PolicyRow,
  limit: LimitColumn,
  key: CountedKey,
  windows: Windows,
): LimitCounter[] {
  const window = windows.of(limit);
  const { counter_version: counterVersion } = limit;
  const subject = subjectOf(limit.counter_scope, key);
  const counters: LimitCounter[] = bucketIdsOf(policy.id, limit).map((policyId) => {
    const counter = { policyId, counterVersion, subject };
    return { limit, bucket: bucketAt(counter, window.start), window };
  });
  if (!hasRates(limit)) return counters;
  const ofRates = { policyId: furtherLimitId(policy.id, limit.id), counterVersion, subject };
  const bucket = bucketAt(ofRates, WITHOUT_WINDOW.start);
  return [...counters, { limit, isOfRates: true, bucket, window: WITHOUT_WINDOW }];
}

type Windowed = Pick<LimitWindow, 'window_kind' | 'timezone'>;

const WITHOUT_WINDOW: Window = { start: new Date(0), end: null };
/** Each counter has windows of its own, which lease calls find. */
const ON_FIRST_USE: Window = { start: new Date(Number(UNOPENED_MS)), end: null };

/** The current window of each policy and further limit: many keys have the same. */
class Windows {
  readonly #now: Date;
  readonly #windows = new Map<Windowed, Window>();

  constructor(now: Date) {
    this.#now = now;
  }

  of(windowed: Windowed): Window {
    const known = this.#windows.get(windowed);
    if (known) return known;
    const { window_kind: kind, timezone } = windowed;
    const window = kind === 'first_use' ? ON_FIRST_USE : windowAt(kind, timezone, this.#now);
    this.#windows.set(windowed, window);
    return window;
  }
}

function subjectOf(scope: string, key: CountedKey): string {
  switch (scope) {
    case 'key':
      return keySubject(key.counter_key_id ?? '');
    case 'principal':
      return principalSubject(key.principal_id);
    default:
      return POLICY_SUBJECT;
  }
}
