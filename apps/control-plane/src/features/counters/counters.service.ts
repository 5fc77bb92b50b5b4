import { keySubject, ownerOf, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import { ledgerAsOf, overrideKey, readCounters, readOverrides } from '@weighbridge/ledger';
import { isByAttribution } from '@weighbridge/state';
import { type Caller, type VisibleObjects, visibleObjects } from '../../shared/caller.ts';
import { page, pageRequest } from '../../shared/paging.ts';
import { definitionNamed, subjectNamed } from '../policies/definedCounters.ts';
import type { PolicyRow } from '../policies/policies.service.ts';
import { findCountedKeys, findCountersOfPrincipals, findPrincipalsWithin } from './counters.repository.ts';
import type { CounterQuery, PolicyCounters } from './counters.schemas.ts';
import { presentCounter } from './presentCounter.ts';

export interface CounterDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** The counters of a policy, or of a further limit of it, in the current window: those that were used in it. */
export async function countersOfPolicy(
  { db, now }: CounterDeps,
  caller: Caller,
  policy: PolicyRow,
  query: CounterQuery,
): Promise<PolicyCounters> {
  const visible = visibleObjects(caller, query.principal_id, 'the counters');
  const at = now();
  const definition = definitionNamed(policy, query.limit_id, at, 'invalid_request');
  const { id: policyId, limit, counterVersion, counterScope, window } = definition;
  if (!window) throw windowsDiffer();
  const subject =
    query.value === undefined ? undefined : subjectNamed(definition, query.value, 'invalid_request');
  if (limit && isByAttribution(limit)) assertSeesValues(visible, query);
  const order = query.sort ?? '-spent';
  const list = JSON.stringify(['counters', policyId, counterVersion, window.start, order]);
  const request = pageRequest(list, query, isPosition);
  const [amount = '', bucketKey = ''] = request.after ?? [];
  const asOf = await ledgerAsOf(db);
  const rows = await readCounters(
    db,
    {
      policyId,
      counterVersion,
      windowStartMs: BigInt(window.start.getTime()),
      scope: limit ? undefined : counterScope,
      subjects: subject === undefined ? await subjectsOf(db, counterScope, visible) : [subject],
    },
    { order, after: request.after && { amount: BigInt(amount), bucketKey }, limit: request.size + 1 },
  );
  const keys = await findCountedKeys(
    db,
    rows.flatMap((row) => ownerOf(row.subject).keyId ?? []),
  );
  const counted = rows.map((row) => ({ policyId, subject: row.subject }));
  const overrides = await readOverrides(db, counted, at);
  const byId = new Map(keys.map((key) => [key.counter_key_id, key]));
  return {
    ...page(
      list,
      request,
      rows,
      (row) => [String(row.orderedBy), row.bucketKey],
      (row) =>
        presentCounter(
          row,
          definition,
          overrides.get(overrideKey({ policyId, subject: row.subject })),
          byId.get(ownerOf(row.subject).keyId ?? ''),
        ),
    ),
    policy_id: policy.id,
    policy_name: policy.name,
    limit_id: limit?.id ?? null,
    limit_name: limit?.name ?? null,
    counter_scope: counterScope,
    window_start: (window.end === null ? definition.countedSince : window.start).toISOString(),
    reset: window.end?.toISOString() ?? null,
    bucket_as_of: asOf.toISOString(),
  };
}

function windowsDiffer(): AppError {
  const message =
    'The windows of this limit open on first use, of each counter by itself, and are not listed yet. The refusals and the webhook events of its counters have their figures.';
  return new AppError('invalid_request', 'windows_differ', message, { param: 'limit_id' });
}

/** The counters in which the requests count that the caller sees; undefined: all. */
async function subjectsOf(
  db: Database,
  scope: string,
  { principalId, within }: VisibleObjects,
): Promise<string[] | undefined> {
  if (principalId === undefined && within === undefined) return undefined;
  if (scope === 'policy') return [POLICY_SUBJECT];
  const principals = within ? await findPrincipalsWithin(db, within, principalId) : [principalId ?? ''];
  if (scope === 'principal') return principals.map(principalSubject);
  return (await findCountersOfPrincipals(db, principals)).map(keySubject);
}

/** Requests of all principals count in the counter of a value, which is another's customer. */
function assertSeesValues({ principalId, within }: VisibleObjects, query: CounterQuery): void {
  if (query.principal_id !== undefined) {
    const message = "This limit has counters for values of attribution, which are no principal's.";
    throw new AppError('invalid_request', 'counter_mismatch', message, { param: 'principal_id' });
  }
  if (principalId === undefined && within === undefined) return;
  const message =
    'Counters of values of attribution are for callers that see the counters of all: operators and auditors.';
  throw new AppError('permission', 'insufficient_role', message, { param: 'limit_id' });
}

function isPosition([amount = '', bucketKey = '', ...others]: readonly string[]): boolean {
  return /^-?\d{1,18}$/.test(amount) && bucketKey !== '' && others.length === 0;
}
