import { definedBy, keySubject, ownerOf, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import { atEnd, type Database, type Tx } from '@weighbridge/database';
import { isId, isPrincipalId, microFromNano, nanoFromMicro, newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import {
  endDueOverrides,
  markDueOverrides,
  type OverriddenCounter,
  type OverrideRow,
} from '@weighbridge/ledger';
import { furtherLimits, isByAttribution } from '@weighbridge/state';
import { type Caller, readsAllSpend, visibleObjects } from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { type AssertMatch, changedAt } from '../../shared/preconditions.ts';
import { recordAudit, recordAudits } from '../audit/audit.service.ts';
import { findKey } from '../keys/keys.service.ts';
import { reclaimExcess } from '../leases/reclaims.ts';
import { updateCounters } from '../policies/counters.service.ts';
import { type CounterDefinition, definitionNamed, subjectNamed } from '../policies/definedCounters.ts';
import { lockGovernance } from '../policies/governance.ts';
import { findPolicy } from '../policies/policies.service.ts';
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
    limitId: query.limit_id,
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
    const definition = definitionNamed(policy, input.limit_id, now, 'validation');
    const { subject, principalId } = await counterOf(tx, definition, input);
    const amount = definition.amountOf(subject);
    if (amount === null) throw policyUnlimited();
    assertNotOwn(caller, principalId);
    const counter = { policyId: definition.id, subject };
    await endDue(tx, counter.policyId, now);
    const other = await findUnended(tx, counter.policyId, subject);
    if (other) throw overrideExists(other.id);
    const id = newId('ovr');
    await insertOverride(tx, {
      id,
      policy_id: counter.policyId,
      subject,
      principal_id: principalId,
      value: input.value?.trim() ?? null,
      limit_nano_usd: nanoFromMicro(input.limit_micro_usd),
      reason,
      created_by: caller.principalId,
      created_at: now,
      updated_at: now,
      ends_at: endsAt,
    });
    await applyLimits(tx, [counter], now);
    const created = await readOverride(tx, id, now);
    const { principal_id, key_id, limit_id, limit_name, value, limit_micro_usd, ends_at } = created;
    const detail = {
      policy_id: policy.id,
      ...(limit_id !== null && { limit_id, limit_name, value }),
      principal_id,
      key_id,
      limit_micro_usd,
      policy_limit_micro_usd: microFromNano(amount),
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
    const { counter, override: before } = await lockOverride(tx, id, now);
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
    await applyLimits(tx, [counter], now);
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
    const { counter, override: before } = await lockOverride(tx, id, now);
    assertMatch(before);
    if (before.ended_at !== null) return before;
    assertNotOwn(caller, before.principal_id);
    await updateOverride(tx, id, {
      ended_at: now,
      updated_at: changedAt(new Date(before.updated_at), now),
    });
    await applyLimits(tx, [counter], now);
    const { policy_id, limit_id, value, ends_at } = before;
    const detail = { policy_id, ...(limit_id !== null && { limit_id, value }), ends_at };
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
    const { ended, bucketKeys } = await endDueOverrides(tx, { now: at, limit: MAX_ENDED });
    await reclaimExcess(tx, { bucketKeys });
    await auditEnds(tx, ended, at);
  });
}

/** Its counters: its own, and those of the teams that it leads. */
function reachOf(caller: Caller, asked?: string): OverrideFilter {
  return visibleObjects(caller, asked, 'overrides', readsAllSpend(caller));
}

/** The locks of governance and of the counters keep overrides as they are until the transaction ends. */
async function lockOverride(
  tx: Tx,
  id: string,
  now: Date,
): Promise<{ readonly override: Override; readonly counter: OverriddenCounter }> {
  await lockGovernance(tx, 'exclusive');
  const { policy_id: policyId, subject } = await readRow(tx, id, now);
  await endDue(tx, policyId, now);
  return { override: await readOverride(tx, id, now), counter: { policyId, subject } };
}

async function readOverride(db: Database, id: string, now: Date): Promise<Override> {
  return toOverride(await readRow(db, id, now), now);
}

async function readRow(db: Database, id: string, now: Date): Promise<ListedOverrideRow> {
  const [row] = await findOverrides(db, { id }, now, undefined, 1);
  return row ?? raise(overrideNotFound());
}

/** An end that has come but is not recorded yet would be in the way of a new override. */
async function endDue(tx: Tx, policyId: string, now: Date): Promise<void> {
  const ended = await markDueOverrides(tx, { now, limit: MAX_ENDED, policyId });
  const counters = ended.map((one) => ({ policyId: one.policy_id, subject: one.subject }));
  await applyLimits(tx, counters, now);
  await auditEnds(tx, ended, now);
}

async function auditEnds(tx: Tx, ended: readonly OverrideRow[], at: Date): Promise<void> {
  await recordAudits(
    tx,
    ended.map(({ id, policy_id, ends_at }) => ({
      actor: { principalId: 'control-plane', identity: null },
      action: 'override.ended',
      resourceId: id,
      detail: { ...policyIn(policy_id), ends_at: ends_at.toISOString() },
      at,
    })),
  );
}

/** As details of the audit log name them. */
function policyIn(definedById: string) {
  const { policyId, limitId } = definedBy({ policyId: definedById });
  return { policy_id: policyId, ...(limitId !== undefined && { limit_id: limitId }) };
}

async function applyLimits(tx: Tx, counters: readonly OverriddenCounter[], now: Date): Promise<void> {
  const changes = counters.map((counter) => ({ ...counter, hasNewLimit: true, at: now }));
  if (changes.length > 0) await atEnd(tx, updateCounters, changes);
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

/** The counter that is named, and whose it is. */
async function counterOf(
  tx: Tx,
  definition: CounterDefinition,
  { principal_id, key_id, value }: NewOverride,
): Promise<{ readonly subject: string; readonly principalId: string | null }> {
  const { counterScope: scope, limit } = definition;
  if (key_id !== undefined && scope !== 'key') throw counterMismatch(definition, 'key_id');
  if (principal_id !== undefined && scope !== 'principal') throw counterMismatch(definition, 'principal_id');
  if (value !== undefined) {
    return { subject: subjectNamed(definition, value, 'validation'), principalId: null };
  }
  if (limit && isByAttribution(limit)) throw counterMismatch(definition, 'value');
  if (scope === 'policy') return { subject: POLICY_SUBJECT, principalId: null };
  if (scope === 'principal') {
    if (principal_id === undefined) throw counterMismatch(definition, 'principal_id');
    if (!isPrincipalId(principal_id) || !(await principalExists(tx, principal_id)))
      throw notFound('principal_id', 'principal');
    return { subject: principalSubject(principal_id), principalId: principal_id };
  }
  if (key_id === undefined) throw counterMismatch(definition, 'key_id');
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
  const { policyId, limitId } = definedBy({ policyId: row.policy_id });
  const { counter, keyId } = ownerOf(row.subject);
  const limit = furtherLimits({ limits: row.policy_limits }).find(({ id }) => id === limitId);
  const isMatching =
    limitId === undefined ? counter === row.policy_scope && row.policy_limited : limit !== undefined;
  return {
    id: row.id,
    policy_id: policyId,
    policy_name: row.policy_name,
    limit_id: limitId ?? null,
    limit_name: limit?.name ?? null,
    counter_scope: limit?.counter_scope ?? counter,
    principal_id: row.principal_id,
    key_id: keyId,
    value: row.value,
    limit_micro_usd: microFromNano(row.limit_nano_usd),
    reason: row.reason,
    active: isMatching && !row.policy_deleted && row.ended_at === null && row.ends_at > now,
    ends_at: row.ends_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
