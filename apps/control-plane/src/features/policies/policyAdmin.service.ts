import { atEnd, type Database, type Tx } from '@weighbridge/database';
import { isId, microFromNano, nanoFromMicro, newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { endOverridesOf } from '@weighbridge/ledger';
import { bucketIdsOf, furtherLimits, type LimitColumn } from '@weighbridge/state';
import type { Caller } from '../../shared/caller.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import type { CacheSettings } from '../../shared/schemas.ts';
import { recordAudits } from '../audit/audit.service.ts';
import { recordChange } from '../changes/changes.service.ts';
import { profileExists } from '../profiles/profiles.service.ts';
import { validAttributionHeaders } from './attributionHeaders.ts';
import { type CounterChange, updateCounters } from './counters.service.ts';
import { assertEveryKeyGoverned, lockGovernance } from './governance.ts';
import {
  depthBelow,
  findParents,
  findPolicies,
  findPolicy,
  findPolicyByName,
  findPolicyUser,
  insertPolicy,
  leadsTo,
  type PolicyRow,
  type PolicyUser,
  replacementsThrough,
  updatePolicy,
} from './policies.repository.ts';
import type {
  NewPolicy,
  OnExhausted,
  Policy,
  PolicyChanges,
  PolicyQuery,
  PolicySettings,
} from './policies.schemas.ts';
import { policyExists } from './policies.service.ts';
import {
  MAX_POLICY_DEPTH,
  MAX_REPLACEMENTS,
  POLICY_DEFAULTS,
  policyCycle,
  policyTooDeep,
  replacementCycle,
  sortedThresholds,
  tooManyReplacements,
  validTimezone,
} from './policies.ts';
import { limitChanges, limitColumns, presentLimit } from './policyLimits.ts';

export interface PolicyAdminDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export async function existingPolicy(db: Database, id: string): Promise<PolicyRow> {
  const row = isId('pol', id) ? await findPolicy(db, id) : undefined;
  return row ?? raise(policyNotFound());
}

export function policyNotFound(): AppError {
  const message = 'There is no policy with this id.';
  return new AppError('not_found', 'policy_not_found', message, { param: 'policy_id' });
}

export async function readPolicy(deps: PolicyAdminDeps, id: string): Promise<Policy> {
  return toPolicy(await existingPolicy(deps.db, id));
}

export async function listPolicies(deps: PolicyAdminDeps, query: PolicyQuery): Promise<PageOf<Policy>> {
  const request = pageRequest('policies', query, positionOf(part.time, part.id('pol')));
  const [createdAt, id] = request.after ?? [];
  const rows = await findPolicies(
    deps.db,
    {
      nameContains: query.name_contains,
      defaultFor: query.default_for,
      parentPolicyId: query.parent_policy_id,
      selfService: query.self_service === undefined ? undefined : query.self_service === 'true',
    },
    createdAt && id ? { createdAt: new Date(createdAt), id } : undefined,
    request.size + 1,
  );
  return page('policies', request, rows, (row) => [row.created_at.toISOString(), row.id], toPolicy);
}

/** Creates a policy. Two may have the same name, unless `assertMatch` forbids it. */
export async function createPolicy(
  deps: PolicyAdminDeps,
  caller: Caller,
  input: NewPolicy,
  assertMatch: AssertMatch,
): Promise<Policy> {
  const now = deps.now();
  const settings = { ...POLICY_DEFAULTS, ...input };
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const namesake = await findPolicyByName(tx, validDisplayName(settings.name));
    assertMatch(namesake && toPolicy(namesake));
    const id = newId('pol');
    await assertReferences(tx, id, settings);
    const row = await insertPolicy(tx, {
      id,
      ...columns(settings),
      limits: JSON.stringify(limitColumns(settings.limits, [], now)),
      counter_since: now,
      created_at: now,
      updated_at: now,
    });
    await assertFewReplacements(tx, id);
    await recordChange(tx, {
      actor: caller,
      action: 'policy.created',
      resourceId: id,
      detail: { ...input },
      reach: reachOf(settings.default_for),
      at: now,
    });
    return toPolicy(row);
  });
}

export async function changePolicy(
  deps: PolicyAdminDeps,
  caller: Caller,
  id: string,
  input: PolicyChanges,
  assertMatch: AssertMatch,
): Promise<Policy> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const row = await existingPolicy(tx, id);
    const before = toPolicy(row);
    assertMatch(before);
    const limits = input.limits && limitColumns(input.limits, furtherLimits(row), now);
    const headers = input.attribution_headers && validAttributionHeaders(input.attribution_headers);
    const asked = {
      ...input,
      ...(limits && { limits: limits.map(presentLimit) }),
      ...(headers && { attribution_headers: headers }),
    };
    const changed = fieldChanges<PolicySettings>(before, asked);
    const names = Object.keys(changed);
    if (names.length === 0) return before;
    const settings = { ...before, ...input };
    await assertReferences(tx, id, input);
    const startsCounter = names.some((name) => COUNTER_FIELDS.has(name));
    const after = await updatePolicy(tx, id, {
      ...columns(settings),
      ...(limits && { limits: JSON.stringify(limits) }),
      ...(startsCounter && { counter_version: row.counter_version + 1, counter_since: now }),
      updated_at: now,
    });
    await assertEveryKeyGoverned(tx);
    if (input.on_exhausted) await assertFewReplacements(tx, id);
    const change = { policyId: id, isNew: startsCounter, hasNewLimit: 'limit_micro_usd' in changed, at: now };
    await atEnd(tx, updateCounters, [change, ...furtherChanges(id, limits ?? [], furtherLimits(row), now)]);
    if (limits)
      await endOverridesWithoutCounters(tx, caller, { id, limits, before: furtherLimits(row), now });
    await recordChange(tx, {
      actor: caller,
      action: 'policy.updated',
      resourceId: id,
      detail: {
        changed: limits ? { ...changed, limits: limitChanges(before.limits, asked.limits ?? []) } : changed,
      },
      reach: reachOf(changed.default_for),
      at: now,
    });
    return toPolicy(after);
  });
}

/** Deletes a policy; a 409 while a key, a principal, an alias or another policy names it. */
export async function deletePolicy(
  deps: PolicyAdminDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Policy> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const before = await existingPolicy(tx, id);
    assertMatch(toPolicy(before));
    const user = await findPolicyUser(tx, id);
    if (user) {
      throw new AppError('conflict', 'policy_in_use', inUse(user), { details: { used_by: user.kind } });
    }
    const row = await updatePolicy(tx, id, { deleted_at: now, default_for: null, updated_at: now });
    await assertEveryKeyGoverned(tx);
    await recordChange(tx, {
      actor: caller,
      action: 'policy.deleted',
      resourceId: id,
      detail: { name: row.name },
      reach: reachOf(before.default_for),
      at: now,
    });
    return toPolicy(row);
  });
}

function inUse({ kind, id, replaces }: PolicyUser): string {
  if (replaces)
    return `This policy governs once the budget of the policy ${id} is used up. Change on_exhausted of that policy first.`;
  if (kind === 'policy')
    return `This policy is the parent of the policy ${id}. Give that policy another parent first.`;
  return `The ${kind} ${id} has this policy. Give that ${kind} another policy first.`;
}

/** A policy that becomes a default, or no longer is one, concerns keys that do not have it yet. */
function reachOf(isDefault: unknown): 'own' | 'all' {
  return isDefault ? 'all' : 'own';
}

/** Limits whose counters get other amounts. What they count from a new version on starts from nothing. */
function furtherChanges(
  id: string,
  limits: readonly LimitColumn[],
  before: readonly LimitColumn[],
  at: Date,
): CounterChange[] {
  const earlier = new Map(before.map((limit) => [limit.id, limit]));
  const amountsOf = (limit: LimitColumn) => {
    const { limit_nano_usd, others_limit_nano_usd, limit_requests = null, limit_tokens = null } = limit;
    return JSON.stringify([limit_nano_usd, others_limit_nano_usd, limit_requests, limit_tokens]);
  };
  const hasNewLimit = (limit: LimitColumn) => amountsOf(limit) !== amountsOf(earlier.get(limit.id) ?? limit);
  const changed = limits.filter(hasNewLimit);
  const policyIds = changed.flatMap((limit) => bucketIdsOf(id, limit));
  return policyIds.map((policyId) => ({ policyId, hasNewLimit: true, at }));
}

/** Those of limits that are gone, or that have counters of something else. */
async function endOverridesWithoutCounters(
  tx: Tx,
  actor: Caller,
  {
    id,
    limits,
    before,
    now,
  }: {
    readonly id: string;
    readonly limits: readonly LimitColumn[];
    readonly before: readonly LimitColumn[];
    readonly now: Date;
  },
): Promise<void> {
  const scopes = new Map(limits.map((limit) => [limit.id, limit.counter_scope]));
  const changed = before.filter((limit) => scopes.get(limit.id) !== limit.counter_scope);
  const ids = changed.flatMap((limit) => bucketIdsOf(id, limit));
  const ended = await endOverridesOf(tx, ids, now);
  await recordAudits(
    tx,
    ended.map((override) => ({
      actor,
      action: 'override.ended',
      resourceId: override.id,
      detail: { policy_id: id, reason: 'The limit has no such counter any more.' },
      at: now,
    })),
  );
}

/** Changing one of these fields starts a new counter. */
const COUNTER_FIELDS: ReadonlySet<string> = new Set(['window', 'timezone', 'counter_scope']);

/** Throws if what a policy refers to does not exist, or if its parents form a cycle. */
async function assertReferences(tx: Tx, id: string, settings: PolicyChanges): Promise<void> {
  if (settings.default_for) await assertDefaultFree(tx, id, settings.default_for);
  const { parent_policy_id: parentId, profile_id: profileId, on_exhausted: onExhausted } = settings;
  // An empty string is not null: it is an id that does not exist.
  if (typeof parentId === 'string') await assertParent(tx, id, parentId);
  if (typeof profileId === 'string') await assertProfile(tx, profileId, 'profile_id');
  if (!onExhausted) return;
  await assertProfile(tx, onExhausted.profile_id, 'on_exhausted.profile_id');
  await assertReplacement(tx, id, onExhausted.policy_id);
}

async function assertProfile(tx: Tx, id: string, param: string): Promise<void> {
  if (await profileExists(tx, id)) return;
  throw new AppError('validation', 'profile_not_found', `There is no profile with this ${param}.`, { param });
}

async function assertReplacement(tx: Tx, id: string, replacementId: string): Promise<void> {
  const param = 'on_exhausted.policy_id';
  if (!(await policyExists(tx, replacementId))) {
    throw new AppError('validation', 'policy_not_found', `There is no policy with this ${param}.`, { param });
  }
  if (await leadsTo(tx, replacementId, id)) throw replacementCycle();
}

/** Throws if the policies that follow each other by on_exhausted are too many, now that one of them is changed. */
async function assertFewReplacements(tx: Tx, id: string): Promise<void> {
  if ((await replacementsThrough(tx, id)) > MAX_REPLACEMENTS) throw tooManyReplacements();
}

function columns(settings: PolicySettings) {
  const { limit_micro_usd: limit, tokens_per_minute: tokens, on_exhausted: onExhausted, cache } = settings;
  return {
    name: validDisplayName(settings.name),
    limit_nano_usd: limit === null ? null : nanoFromMicro(limit),
    window_kind: settings.window,
    timezone: validTimezone(settings.timezone),
    counter_scope: settings.counter_scope,
    enforcement: settings.enforcement,
    budget_mode: settings.budget_mode,
    hard_allow_fields: settings.hard_allow_fields,
    allowed_models: settings.allowed_models,
    foreign_objects: settings.foreign_objects,
    translation: settings.translation,
    auto_cache: settings.auto_cache,
    queue_ms: settings.queue_ms,
    priority: settings.priority,
    attribution_headers: JSON.stringify(validAttributionHeaders(settings.attribution_headers)),
    user_from_body: settings.user_from_body,
    requests_per_minute: settings.requests_per_minute,
    tokens_per_minute: tokens === null ? null : BigInt(tokens),
    max_parallel: settings.max_parallel,
    parent_policy_id: settings.parent_policy_id,
    default_for: settings.default_for,
    self_service: settings.self_service,
    profile_id: settings.profile_id,
    exhausted_profile_id: onExhausted?.profile_id ?? null,
    exhausted_policy_id: onExhausted?.policy_id ?? null,
    cache: cache === null ? null : JSON.stringify(cache),
    thresholds: sortedThresholds(settings.thresholds),
  };
}

async function assertDefaultFree(tx: Tx, id: string, kind: 'service' | 'user' | 'all'): Promise<void> {
  const [taken] = await findPolicies(tx, { defaultFor: kind }, undefined, 1);
  if (!taken || taken.id === id) return;
  throw new AppError(
    'conflict',
    'default_taken',
    `${taken.id} is already the default for ${kind}. Clear its default_for first.`,
    { param: 'default_for', details: { policy_id: taken.id } },
  );
}

async function assertParent(tx: Tx, id: string, parentId: string): Promise<void> {
  if (!(await policyExists(tx, parentId))) {
    throw new AppError('validation', 'policy_not_found', 'There is no policy with this parent_policy_id.', {
      param: 'parent_policy_id',
    });
  }
  const above = [parentId, ...(await findParents(tx, parentId)).map((parent) => parent.id)];
  if (await leadsTo(tx, parentId, id)) throw policyCycle();
  if (above.length + 1 + (await depthBelow(tx, id)) > MAX_POLICY_DEPTH) throw policyTooDeep();
}

function onExhaustedOf({ exhausted_profile_id, exhausted_policy_id }: PolicyRow): OnExhausted | null {
  if (exhausted_profile_id === null || exhausted_policy_id === null) return null;
  return { profile_id: exhausted_profile_id, policy_id: exhausted_policy_id };
}

function toPolicy(row: PolicyRow): Policy {
  return {
    id: row.id,
    name: row.name,
    limit_micro_usd: row.limit_nano_usd === null ? null : microFromNano(row.limit_nano_usd),
    window: row.window_kind,
    timezone: row.timezone,
    counter_scope: row.counter_scope,
    enforcement: row.enforcement,
    budget_mode: row.budget_mode,
    hard_allow_fields: row.hard_allow_fields,
    allowed_models: row.allowed_models,
    foreign_objects: row.foreign_objects,
    translation: row.translation,
    auto_cache: row.auto_cache,
    queue_ms: row.queue_ms,
    priority: row.priority,
    attribution_headers: row.attribution_headers as Record<string, string>,
    user_from_body: row.user_from_body,
    requests_per_minute: row.requests_per_minute,
    tokens_per_minute: row.tokens_per_minute === null ? null : Number(row.tokens_per_minute),
    max_parallel: row.max_parallel,
    parent_policy_id: row.parent_policy_id,
    default_for: row.default_for,
    self_service: row.self_service,
    profile_id: row.profile_id,
    on_exhausted: onExhaustedOf(row),
    cache: row.cache as CacheSettings | null,
    thresholds: row.thresholds,
    limits: furtherLimits(row).map(presentLimit),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
