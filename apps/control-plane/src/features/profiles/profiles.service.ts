import type { Database, Tx } from '@weighbridge/database';
import { isId, newId, type RoutingProfile } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { hasInvalidCharacter } from '../../shared/invalidText.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import type { CacheSettings } from '../../shared/schemas.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  countProfiles,
  findAllProfiles,
  findProfile,
  findProfileAlias,
  findProfileByName,
  findProfiles,
  findProfileUser,
  insertProfile,
  keepProfile,
  lockProfile,
  lockProfileNames,
  type ProfileRow,
  removeProfile,
  updateProfile,
} from './profiles.repository.ts';
import type {
  NewProfile,
  Profile,
  ProfileChanges,
  ProfileConstraints,
  ProfileQuery,
  ProfileSettings,
  ProfileTarget,
} from './profiles.schemas.ts';
import { routingProfile, validProfileName, validTargets } from './profiles.ts';

/** Every proxy holds all profiles in memory. */
const MAX_PROFILES = 1_000;

export interface ProfileDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** Whether there is a profile that a policy may name. It is not deleted before the transaction ends. */
export async function profileExists(tx: Tx, id: string): Promise<boolean> {
  return isId('prf', id) && (await keepProfile(tx, id));
}

/** Whether there is a profile that an alias may name. It is not deleted before the transaction ends. */
export async function profileNameExists(tx: Tx, name: string): Promise<boolean> {
  const profile = await findProfileByName(tx, name);
  return profile !== undefined && (await keepProfile(tx, profile.id));
}

export async function existingProfile(db: Database, id: string): Promise<ProfileRow> {
  return (isId('prf', id) ? await findProfile(db, id) : undefined) ?? raise(profileNotFound());
}

/** Undefined if there is no profile of this name. */
export async function profileByName(db: Database, name: string): Promise<ProfileRow | undefined> {
  return hasInvalidCharacter(name) ? undefined : await findProfileByName(db, name);
}

/** The profile of a row as the router uses it. */
export function routingProfileOf(row: ProfileRow): RoutingProfile {
  return routingProfile(row.id, settingsOf(row));
}

/** All profiles as the router uses them. */
export async function routingProfiles(db: Database): Promise<RoutingProfile[]> {
  return (await findAllProfiles(db, MAX_PROFILES)).map(routingProfileOf);
}

export async function readProfile(deps: ProfileDeps, id: string): Promise<Profile> {
  return toProfile(await existingProfile(deps.db, id));
}

export async function listProfiles(deps: ProfileDeps, query: ProfileQuery): Promise<PageOf<Profile>> {
  const request = pageRequest('profiles', query, positionOf(part.text));
  const filter = { nameContains: query.name_contains };
  const rows = await findProfiles(deps.db, filter, request.after?.[0], request.size + 1);
  return page('profiles', request, rows, (row) => [row.name], toProfile);
}

export async function createProfile(deps: ProfileDeps, caller: Caller, input: NewProfile): Promise<Profile> {
  const now = deps.now();
  const id = newId('prf');
  const name = validProfileName(input.name);
  const targets = JSON.stringify(validTargets(input.targets));
  return await deps.db.transaction().execute(async (tx) => {
    await lockProfileNames(tx);
    await assertNameFree(tx, id, name);
    if ((await countProfiles(tx)) >= MAX_PROFILES) throw tooManyProfiles();
    const constraints = JSON.stringify(input.constraints ?? {});
    const times = { created_at: now, updated_at: now };
    const row = await insertProfile(tx, {
      id,
      name,
      strategy: input.strategy,
      targets,
      constraints,
      cache: cacheColumn(input.cache ?? null),
      pin_prompt_cache_keys: input.pin_prompt_cache_keys ?? false,
      translation: input.translation ?? 'lenient',
      auto_cache: input.auto_cache ?? false,
      ...times,
    });
    await recordChange(tx, {
      actor: caller,
      action: 'profile.created',
      resourceId: id,
      detail: { ...input },
      at: now,
    });
    return toProfile(row);
  });
}

export async function changeProfile(
  deps: ProfileDeps,
  caller: Caller,
  id: string,
  input: ProfileChanges,
  assertMatch: AssertMatch,
): Promise<Profile> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = toProfile((await lockProfile(tx, id)) ?? raise(profileNotFound()));
    assertMatch(before);
    const changed = fieldChanges<ProfileSettings>(before, input);
    if (Object.keys(changed).length === 0) return before;
    if (changed.name) {
      await lockProfileNames(tx);
      await assertNameFree(tx, id, validProfileName(changed.name.to as string));
      await assertNoAlias(tx, before.name);
    }
    const row = await updateProfile(tx, id, {
      ...(input.name !== undefined && { name: input.name }),
      ...(input.strategy !== undefined && { strategy: input.strategy }),
      ...(input.targets !== undefined && { targets: JSON.stringify(validTargets(input.targets)) }),
      ...(input.constraints !== undefined && { constraints: JSON.stringify(input.constraints) }),
      ...(input.cache !== undefined && { cache: cacheColumn(input.cache) }),
      ...(input.pin_prompt_cache_keys !== undefined && {
        pin_prompt_cache_keys: input.pin_prompt_cache_keys,
      }),
      ...(input.translation !== undefined && { translation: input.translation }),
      ...(input.auto_cache !== undefined && { auto_cache: input.auto_cache }),
      updated_at: now,
    });
    await recordChange(tx, {
      actor: caller,
      action: 'profile.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return toProfile(row);
  });
}

/** Deletes a profile; a 409 while a policy names it. */
export async function deleteProfile(
  deps: ProfileDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Profile> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const row = (await lockProfile(tx, id)) ?? raise(profileNotFound());
    assertMatch(toProfile(row));
    const policy = await findProfileUser(tx, id);
    if (policy !== undefined) {
      throw new AppError(
        'conflict',
        'profile_in_use',
        `The policy ${policy} has this profile. Give that policy another profile first.`,
      );
    }
    await assertNoAlias(tx, row.name);
    await removeProfile(tx, id);
    await recordChange(tx, {
      actor: caller,
      action: 'profile.deleted',
      resourceId: id,
      detail: { name: row.name },
      at: now,
    });
    return toProfile(row);
  });
}

/** An alias names its profile, so it would stand for nothing. */
async function assertNoAlias(tx: Tx, name: string): Promise<void> {
  const alias = await findProfileAlias(tx, name);
  if (alias === undefined) return;
  const message = `The alias ${alias} stands for this profile. Give that alias another target first, or delete it.`;
  throw new AppError('conflict', 'profile_in_use', message);
}

async function assertNameFree(tx: Tx, id: string, name: string): Promise<void> {
  const taken = await findProfileByName(tx, name);
  if (!taken || taken.id === id) return;
  throw new AppError(
    'conflict',
    'profile_name_taken',
    `The profile ${taken.id} already has the name "${name}". Choose another name.`,
    {
      param: 'name',
    },
  );
}

function profileNotFound(): AppError {
  return new AppError('not_found', 'profile_not_found', 'There is no profile with this id.', {
    param: 'profile_id',
  });
}

function tooManyProfiles(): AppError {
  const message = `The limit of ${MAX_PROFILES} profiles is reached. Delete a profile first.`;
  return new AppError('conflict', 'too_many_profiles', message);
}

function cacheColumn(cache: CacheSettings | null): string | null {
  return cache === null ? null : JSON.stringify(cache);
}

function settingsOf(row: ProfileRow): ProfileSettings {
  return {
    name: row.name,
    strategy: row.strategy,
    targets: row.targets as unknown as ProfileTarget[],
    constraints: row.constraints as ProfileConstraints,
    cache: row.cache as CacheSettings | null,
    pin_prompt_cache_keys: row.pin_prompt_cache_keys,
    translation: row.translation,
    auto_cache: row.auto_cache,
  };
}

function toProfile(row: ProfileRow): Profile {
  return {
    id: row.id,
    ...settingsOf(row),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
