import type { Database, Tx } from '@weighbridge/database';
import { DEFAULT_PROFILE, isId, newId, profileNameOf, type Alias as RoutedAlias } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { catalogProviders, modelExists } from '../catalog/catalog.service.ts';
import { recordChange } from '../changes/changes.service.ts';
import { usableConnectors } from '../connectors/connectors.service.ts';
import { type ModelDeps, servedModels } from '../models/models.service.ts';
import { policyExists } from '../policies/policies.service.ts';
import { profileNameExists } from '../profiles/profiles.service.ts';
import {
  type AliasRow,
  countAliases,
  findAlias,
  findAliasByName,
  findAliases,
  insertAlias,
  lockAliases,
  removeAlias,
  updateAlias,
} from './aliases.repository.ts';
import type { Alias, AliasChanges, AliasQuery, AliasSettings, NewAlias } from './aliases.schemas.ts';
import { assertNoProvider, targetInvalid, validAliasName, validAliasTarget } from './aliases.ts';

/** Every proxy holds all aliases in memory. */
const MAX_ALIASES = 1_000;

export type AliasDeps = ModelDeps;

export async function existingAlias(db: Database, id: string): Promise<AliasRow> {
  return (isId('als', id) ? await findAlias(db, id) : undefined) ?? raise(aliasNotFound());
}

/** All aliases as the router uses them. */
export async function routedAliases(db: Database): Promise<RoutedAlias[]> {
  const rows = await findAliases(db, {}, undefined, MAX_ALIASES);
  return rows.map(({ id, name, target, policy_id }) => ({
    id,
    name,
    target,
    ...(policy_id !== null && { policyId: policy_id }),
  }));
}

export async function readAlias(deps: AliasDeps, id: string): Promise<Alias> {
  return await presented(deps, deps.db, await existingAlias(deps.db, id));
}

export async function listAliases(deps: AliasDeps, query: AliasQuery): Promise<PageOf<Alias>> {
  const request = pageRequest('aliases', query, positionOf(part.text, part.id('als')));
  const [name = '', id = ''] = request.after ?? [];
  const rows = await findAliases(
    deps.db,
    { nameContains: query.name_contains, policyId: query.policy_id },
    request.after && { name, id },
    request.size + 1,
  );
  const whyUnusable = await usability(deps, deps.db, rows);
  return page(
    'aliases',
    request,
    rows,
    (row) => [row.name, row.id],
    (row) => toAlias(row, whyUnusable(row.target)),
  );
}

export async function createAlias(deps: AliasDeps, caller: Caller, input: NewAlias): Promise<Alias> {
  const now = deps.now();
  const id = newId('als');
  const settings = { name: input.name, target: input.target, policy_id: input.policy_id ?? null };
  return await deps.db.transaction().execute(async (tx) => {
    await lockAliases(tx);
    await assertValid(tx, id, settings, settings);
    if ((await countAliases(tx)) >= MAX_ALIASES) throw tooManyAliases();
    const row = await insertAlias(tx, { id, ...settings, created_at: now, updated_at: now });
    await recordChange(tx, {
      actor: caller,
      action: 'alias.created',
      resourceId: id,
      detail: { ...input },
      at: now,
    });
    return await presented(deps, tx, row);
  });
}

export async function changeAlias(
  deps: AliasDeps,
  caller: Caller,
  id: string,
  input: AliasChanges,
  assertMatch: AssertMatch,
): Promise<Alias> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockAliases(tx);
    const before = await existingAlias(tx, id);
    assertMatch(await presented(deps, tx, before));
    const { name, target, policy_id } = before;
    const changed = fieldChanges<AliasSettings>({ name, target, policy_id }, input);
    if (Object.keys(changed).length === 0) return await presented(deps, tx, before);
    const settings = { name, target, policy_id, ...input };
    await assertValid(tx, id, settings, input);
    const row = await updateAlias(tx, id, { ...settings, updated_at: now });
    await recordChange(tx, {
      actor: caller,
      action: 'alias.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return await presented(deps, tx, row);
  });
}

export async function deleteAlias(
  deps: AliasDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Alias> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockAliases(tx);
    const row = await existingAlias(tx, id);
    assertMatch(await presented(deps, tx, row));
    await removeAlias(tx, id);
    await recordChange(tx, {
      actor: caller,
      action: 'alias.deleted',
      resourceId: id,
      detail: { name: row.name, target: row.target },
      at: now,
    });
    return await presented(deps, tx, row);
  });
}

/** Throws if what is set breaks a rule, or the name is taken. */
async function assertValid(tx: Tx, id: string, settings: AliasSettings, set: AliasChanges): Promise<void> {
  if (set.name !== undefined) {
    assertNoProvider(validAliasName(set.name), await catalogProviders(tx));
  }
  if (set.target !== undefined) await assertTarget(tx, validAliasTarget(set.target));
  // An empty string is not null: it is an id that does not exist.
  if (typeof set.policy_id === 'string' && !(await policyExists(tx, set.policy_id))) {
    throw new AppError('validation', 'policy_not_found', 'There is no policy with this policy_id.', {
      param: 'policy_id',
    });
  }
  const taken = await findAliasByName(tx, settings.name, settings.policy_id);
  if (!taken || taken.id === id) return;
  const whose = settings.policy_id === null ? 'all keys' : 'this policy';
  const message = `The alias ${taken.id} already has the name "${settings.name}" for ${whose}. Change that one, or choose another name.`;
  throw new AppError('conflict', 'alias_name_taken', message, { param: 'name' });
}

/** A target with a typing mistake would never work. A model that nothing serves yet may be served later. */
async function assertTarget(tx: Tx, target: string): Promise<void> {
  const profile = profileNameOf(target);
  if (profile === undefined) {
    if (await modelExists(tx, target)) return;
    throw targetInvalid(
      `The catalog has no model ${target}. GET /api/v1/catalog/models lists its models; PUT adds one.`,
    );
  }
  if (profile === DEFAULT_PROFILE || (await profileNameExists(tx, profile))) return;
  throw targetInvalid(`There is no routing profile "${profile}". GET /api/v1/profiles lists the profiles.`);
}

/** Why a target can't serve requests now; undefined if it can. */
async function usability(
  deps: AliasDeps,
  db: Database,
  rows: readonly AliasRow[],
): Promise<(target: string) => string | undefined> {
  if (rows.every(({ target }) => profileNameOf(target) !== undefined)) return () => undefined;
  const { models: served } = await servedModels(db, await usableConnectors({ ...deps, db }));
  const ids = new Set(served.map(({ id }) => id));
  return (target) =>
    profileNameOf(target) !== undefined || ids.has(target)
      ? undefined
      : `The model ${target} has no price, is disabled, or no enabled connector serves it.`;
}

async function presented(deps: AliasDeps, db: Database, row: AliasRow): Promise<Alias> {
  return toAlias(row, (await usability(deps, db, [row]))(row.target));
}

function toAlias(row: AliasRow, whyUnusable: string | undefined): Alias {
  return {
    id: row.id,
    name: row.name,
    target: row.target,
    policy_id: row.policy_id,
    usable: whyUnusable === undefined,
    unusable_reason: whyUnusable ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function aliasNotFound(): AppError {
  return new AppError('not_found', 'alias_not_found', 'There is no alias with this id.', {
    param: 'alias_id',
  });
}

function tooManyAliases(): AppError {
  const message = `The limit of ${MAX_ALIASES} aliases is reached. Delete an alias first, or use one that ends with *.`;
  return new AppError('conflict', 'too_many_aliases', message);
}
