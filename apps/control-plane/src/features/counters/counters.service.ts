import { keySubject, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { microFromNano, windowAt } from '@weighbridge/domain';
import {
  type CounterRow,
  ledgerAsOf,
  type OverrideInForce,
  overrideKey,
  readCounters,
  readOverrides,
} from '@weighbridge/ledger';
import { type Caller, type VisibleObjects, visibleObjects } from '../../shared/caller.ts';
import { page, pageRequest } from '../../shared/paging.ts';
import { limitOf, presentOverride } from '../policies/limitOverride.ts';
import type { PolicyRow } from '../policies/policies.service.ts';
import {
  type CountedKeyRow,
  findCountedKeys,
  findCountersOfPrincipals,
  findPrincipalsWithin,
} from './counters.repository.ts';
import type { CounterQuery, PolicyCounter, PolicyCounters } from './counters.schemas.ts';

export interface CounterDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** The counters of a policy in its current window, of what was used in it. */
export async function countersOfPolicy(
  { db, now }: CounterDeps,
  caller: Caller,
  policy: PolicyRow,
  query: CounterQuery,
): Promise<PolicyCounters> {
  const visible = visibleObjects(caller, query.principal_id, 'the counters');
  const at = now();
  const window = windowAt(policy.window_kind, policy.timezone, at);
  const order = query.sort ?? '-spent';
  const list = JSON.stringify(['counters', policy.id, policy.counter_version, window.start, order]);
  const request = pageRequest(list, query, isPosition);
  const [amount = '', bucketKey = ''] = request.after ?? [];
  const asOf = await ledgerAsOf(db);
  const rows = await readCounters(
    db,
    {
      policyId: policy.id,
      counterVersion: policy.counter_version,
      windowStart: window.start,
      scope: policy.counter_scope,
      subjects: await subjectsOf(db, policy, visible),
    },
    { order, after: request.after && { amount: BigInt(amount), bucketKey }, limit: request.size + 1 },
  );
  const keys = await findCountedKeys(
    db,
    rows.flatMap(({ subject }) => idIn(subject, 'key') ?? []),
  );
  const counted = rows.map(({ subject }) => ({ policyId: policy.id, subject }));
  const overrides = await readOverrides(db, counted, at);
  const byId = new Map(keys.map((key) => [key.counter_key_id, key]));
  return {
    ...page(
      list,
      request,
      rows,
      (row) => [String(order.endsWith('spent') ? row.spent : row.leased), row.bucketKey],
      (row) =>
        present(row, policy, overrides.get(overrideKey({ policyId: policy.id, subject: row.subject })), byId),
    ),
    policy_id: policy.id,
    policy_name: policy.name,
    counter_scope: policy.counter_scope,
    window_start: (window.end === null ? policy.counter_since : window.start).toISOString(),
    reset: window.end?.toISOString() ?? null,
    bucket_as_of: asOf.toISOString(),
  };
}

/** The counters in which the requests count that the caller sees; undefined: all. */
async function subjectsOf(
  db: Database,
  policy: PolicyRow,
  { principalId, within }: VisibleObjects,
): Promise<string[] | undefined> {
  if (principalId === undefined && within === undefined) return undefined;
  if (policy.counter_scope === 'policy') return [POLICY_SUBJECT];
  const principals = within ? await findPrincipalsWithin(db, within, principalId) : [principalId ?? ''];
  if (policy.counter_scope === 'principal') return principals.map(principalSubject);
  return (await findCountersOfPrincipals(db, principals)).map(keySubject);
}

function present(
  { subject, spent, leased }: CounterRow,
  policy: PolicyRow,
  override: OverrideInForce | undefined,
  keys: ReadonlyMap<string, CountedKeyRow>,
): PolicyCounter {
  const keyId = idIn(subject, 'key');
  const key = keyId === undefined ? undefined : keys.get(keyId);
  const limit = limitOf(policy, override);
  const headroom = limit === null ? null : limit - spent - leased;
  return {
    principal_id: key?.principal_id ?? idIn(subject, 'principal') ?? null,
    key_id: keyId ?? null,
    key_name: key?.name ?? null,
    spent_micro_usd: microFromNano(spent),
    leased_micro_usd: microFromNano(leased),
    limit_micro_usd: limit === null ? null : microFromNano(limit),
    headroom_micro_usd: headroom === null ? null : Math.max(0, microFromNano(headroom)),
    override: presentOverride(override),
  };
}

function idIn(subject: string, scope: 'key' | 'principal'): string | undefined {
  return subject.startsWith(`${scope}:`) ? subject.slice(scope.length + 1) : undefined;
}

function isPosition([amount = '', bucketKey = '', ...others]: readonly string[]): boolean {
  return /^-?\d{1,18}$/.test(amount) && bucketKey !== '' && others.length === 0;
}
