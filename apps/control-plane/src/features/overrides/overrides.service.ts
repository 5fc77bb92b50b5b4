import { keySubject, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import { atEnd, type Database, type Tx } from '@weighbridge/database';
import { isId, isPrincipalId, microFromNano, nanoFromMicro, newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { endDueOverrides, markDueOverrides, type OverrideRow } from '@weighbridge/ledger';
import { type Caller, readsAllSpend, visibleObjects } from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { type AssertMatch, changedAt } from '../../shared/preconditions.ts';
import { recordAudit, recordAudits } from '../audit/audit.service.ts';
import { findKey } from '../keys/keys.service.ts';
import { reclaimExcess } from '../leases/reclaims.ts';
import { updateCounters } from '../policies/counters.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { findPolicy, type PolicyRow } from '../policies/policies.service.ts';
import { principalExists } from '../principals/principals.service.ts';
import {
  findOverrides,
  findUnended,
  insertOverride,
  isAnyDue,
  type ListedOverrideRow,
  type OverrideFilter,
  updateOverride,
} from './overrides.repository.ts';
import type { NewOverride, Override, OverrideChanges, OverrideQuery } from './overrides.schemas.ts';
import {
  assertEnd,
  counterMismatch,
  overrideEnded,
  overrideExists,
  overrideNotFound,
  ownOverride,
  policyUnlimited,
  validReason,
} from './overrides.ts';

export interface OverrideDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** The override with this id, if the caller may see the counter that it is for. */
export async function visibleOverride(
  { db, now }: OverrideDeps,
  caller: Caller,
  id: string,
): Promise<Override> {
  const at = now();
  const [row] = isId('ovr', id) ? await findOverrides(db, { ...reachOf(caller), id }, at, undefined, 1) : [];
  return toOverride(row ?? raise(overrideNotFound()), at);
}

/** The overrides that the caller may see, newest first. */
export async function listOverrides(
  { db, now }: OverrideDeps,
  caller: Caller,
  query: OverrideQuery,
): Promise<PageOf<Override>> {
  const at = now();
  const request = pageRequest('overrides', query, positionOf(part.time, part.id('ovr')));
  const [createdAt, id] = request.after ?? [];
  const filter = {
    ...reachOf(caller, query.principal_id),
    policyId: query.policy_id,
    isActive: query.active === undefined ? undefined : query.active === 'true',
  };
  const after = createdAt && id ? { createdAt: new Date(createdAt), id } : undefined;
  const rows = await findOverrides(db, filter, at, after, request.size + 1);
  return page(
    'overrides',
    request,
    rows,
    (row) => [row.created_at.toISOString(), row.id],
    (row) => toOverride(row, at),
  );
}

export async function createOverride(
  deps: OverrideDeps,
  caller: Caller,
  input: NewOverride,
): Promise<Override> {
  const now = deps.now();
  const reason = validReason(input.reason);
  const endsAt = endOf(input, now);
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const policy = isId('pol', input.policy_id) ? await findPolicy(tx, input.policy_id) : undefined;
    if (!policy) throw notFound('policy_id', 'policy');
    if (policy.limit_nano_usd === null) throw policyUnlimited();
    const { subject, principalId } = await counterOf(tx, policy, input);
    assertNotOwn(caller, principalId);
    await endDue(tx, policy.id, now);
    const other = await findUnended(tx, policy.id, subject);
    if (other) throw overrideExists(other.id);
    const id = newId('ovr');
    await insertOverride(tx, {
      id,
      policy_id: policy.id,
      subject,
      principal_id: principalId,
      limit_nano_usd: nanoFromMicro(input.limit_micro_usd),
      reason,
      created_by: caller.principalId,
      created_at: now,
      updated_at: now,
      ends_at: endsAt,
    });
    await applyLimits(tx, policy.id, now);
    const created = await readOverride(tx, id, now);
    const { principal_id, key_id, limit_micro_usd, ends_at } = created;
    const detail = {
      policy_id: policy.id,
      principal_id,
      key_id,
      limit_micro_usd,
      policy_limit_micro_usd: microFromNano(policy.limit_nano_usd),
      reason,
      ends_at,
    };
    await recordAudit(tx, { actor: caller, action: 'override.created', resourceId: id, detail, at: now });
    return created;
  });
}

export async function changeOverride(
  deps: OverrideDeps,
  caller: Caller,
  id: string,
  input: OverrideChanges,
  assertMatch: AssertMatch,
): Promise<Override> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockOverride(tx, id, now);
    assertMatch(before);
    const wanted = {
      ...(input.limit_micro_usd !== undefined && { limit_micro_usd: input.limit_micro_usd }),
      ...(input.reason !== undefined && { reason: validReason(input.reason) }),
      ...(input.ends_at !== undefined && { ends_at: parseDateTime('ends_at', input.ends_at).toISOString() }),
    };
    const changed = fieldChanges<Override>(before, wanted);
    if (Object.keys(changed).length === 0) return before;
    assertNotOwn(caller, before.principal_id);
    if (before.ended_at !== null) throw overrideEnded(new Date(before.ended_at));
    const { limit_micro_usd, reason, ends_at } = { ...before, ...wanted };
    if (changed.ends_at) assertEnd(new Date(ends_at), now);
    await updateOverride(tx, id, {
      limit_nano_usd: nanoFromMicro(limit_micro_usd),
      reason,
      ends_at: new Date(ends_at),
      updated_at: changedAt(new Date(before.updated_at), now),
    });
    await applyLimits(tx, before.policy_id, now);
    const detail = { changed };
    await recordAudit(tx, { actor: caller, action: 'override.updated', resourceId: id, detail, at: now });
    return await readOverride(tx, id, now);
  });
}

/** Ends an override before its time. Repeating it changes nothing. */
export async function endOverride(
  deps: OverrideDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Override> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockOverride(tx, id, now);
    assertMatch(before);
    if (before.ended_at !== null) return before;
    assertNotOwn(caller, before.principal_id);
    await updateOverride(tx, id, {
      ended_at: now,
      updated_at: changedAt(new Date(before.updated_at), now),
    });
    await applyLimits(tx, before.policy_id, now);
    const detail = { policy_id: before.policy_id, ends_at: before.ends_at };
    await recordAudit(tx, { actor: caller, action: 'override.ended', resourceId: id, detail, at: now });
    return await readOverride(tx, id, now);
  });
}

/** In one transaction at most. */
const MAX_ENDED = 1_000;

/** Records the ends that have come: proxies give back what exceeds the policies' limits. */
export async function recordEnds({ db, now }: OverrideDeps): Promise<void> {
  const at = now();
  if (!(await isAnyDue(db, at))) return;
  await db.transaction().execute(async (tx) => {
    const ended = await endDueOverrides(tx, { now: at, limit: MAX_ENDED });
    await reclaimExcess(tx, [...new Set(ended.map(({ policy_id }) => policy_id))]);
    await auditEnds(tx, ended, at);
  });
}

/** Its counters: its own, and those of the teams that it leads. */
function reachOf(caller: Caller, asked?: string): OverrideFilter {
  return visibleObjects(caller, asked, 'overrides', readsAllSpend(caller));
}

/** The locks of governance and of the counters keep overrides as they are until the transaction ends. */
async function lockOverride(tx: Tx, id: string, now: Date): Promise<Override> {
  await lockGovernance(tx, 'exclusive');
  const { policy_id } = await readOverride(tx, id, now);
  await endDue(tx, policy_id, now);
  return await readOverride(tx, id, now);
}

async function readOverride(db: Database, id: string, now: Date): Promise<Override> {
  const [row] = await findOverrides(db, { id }, now, undefined, 1);
  return toOverride(row ?? raise(overrideNotFound()), now);
}

/** An end that has come but is not recorded yet would be in the way of a new override. */
async function endDue(tx: Tx, policyId: string, now: Date): Promise<void> {
  const ended = await markDueOverrides(tx, { now, limit: MAX_ENDED, policyId });
  if (ended.length > 0) await applyLimits(tx, policyId, now);
  await auditEnds(tx, ended, now);
}

async function auditEnds(tx: Tx, ended: readonly OverrideRow[], at: Date): Promise<void> {
  await recordAudits(
    tx,
    ended.map(({ id, policy_id, ends_at }) => ({
      actor: { principalId: 'control-plane', identity: null },
      action: 'override.ended',
      resourceId: id,
      detail: { policy_id, ends_at: ends_at.toISOString() },
      at,
    })),
  );
}

async function applyLimits(tx: Tx, policyId: string, now: Date): Promise<void> {
  await atEnd(tx, updateCounters, [{ policyId, hasNewLimit: true, at: now }]);
}

function endOf({ ends_at, duration_seconds }: NewOverride, now: Date): Date {
  if ((ends_at === undefined) === (duration_seconds === undefined)) {
    const message = 'Give an end: either ends_at or duration_seconds.';
    throw new AppError('invalid_request', 'invalid_request', message, { param: 'ends_at' });
  }
  const endsAt =
    ends_at === undefined
      ? new Date(now.getTime() + (duration_seconds ?? 0) * 1_000)
      : parseDateTime('ends_at', ends_at);
  assertEnd(endsAt, now);
  return endsAt;
}

/** The counter of a policy that is named, and whose it is. */
async function counterOf(
  tx: Tx,
  { counter_scope: scope }: PolicyRow,
  { principal_id, key_id }: NewOverride,
): Promise<{ readonly subject: string; readonly principalId: string | null }> {
  if (key_id !== undefined && scope !== 'key') throw counterMismatch(scope, 'key_id');
  if (principal_id !== undefined && scope !== 'principal') throw counterMismatch(scope, 'principal_id');
  if (scope === 'policy') return { subject: POLICY_SUBJECT, principalId: null };
  if (scope === 'principal') {
    if (principal_id === undefined) throw counterMismatch(scope, 'principal_id');
    if (!isPrincipalId(principal_id) || !(await principalExists(tx, principal_id)))
      throw notFound('principal_id', 'principal');
    return { subject: principalSubject(principal_id), principalId: principal_id };
  }
  if (key_id === undefined) throw counterMismatch(scope, 'key_id');
  const key = isId('key', key_id) ? await findKey(tx, key_id) : undefined;
  if (!key || key.revoked_at !== null) throw notFound('key_id', 'key');
  if (key.counter_key_id !== key.id) {
    const message = `This key draws on the counter of the key ${key.counter_key_id}, as all that it issued do. Name that one.`;
    throw new AppError('validation', 'counter_mismatch', message, { param: 'key_id' });
  }
  return { subject: keySubject(key.id), principalId: key.principal_id };
}

function notFound(param: string, what: 'policy' | 'principal' | 'key'): AppError {
  const message = `There is no ${what} with this ${param}.`;
  return new AppError('validation', `${what}_not_found`, message, { param });
}

function assertNotOwn(caller: Caller, principalId: string | null): void {
  if (principalId === caller.principalId) throw ownOverride();
}

function toOverride(row: ListedOverrideRow, now: Date): Override {
  const [scope = '', ...id] = row.subject.split(':');
  const isMatching = scope === row.policy_scope && row.policy_limited;
  return {
    id: row.id,
    policy_id: row.policy_id,
    policy_name: row.policy_name,
    counter_scope: scope as Override['counter_scope'],
    principal_id: row.principal_id,
    key_id: scope === 'key' ? id.join(':') : null,
    limit_micro_usd: microFromNano(row.limit_nano_usd),
    reason: row.reason,
    active: isMatching && row.ended_at === null && row.ends_at > now,
    ends_at: row.ends_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
