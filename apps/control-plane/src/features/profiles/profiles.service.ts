import type { Database, Tx } from '@weighbridge/database';
import { isId, newId, type RoutingProfile } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { CacheSettings } from '../../shared/schemas.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  countProfiles,
  findAllProfiles,
  findProfile,
  findProfileByName,
  findProfiles,
  insertProfile,
  lockProfile,
  type ProfileRow,
  profileIsUsed,
  removeProfile,
  updateProfile,
} from './profiles.repository.ts';
import {
  type NewProfile,
  type ProfileChanges,
  type ProfileConstraints,
  type ProfileSettings,
  type ProfileTarget,
  requireProfileName,
  requireTargets,
  routingProfile,
} from './profiles.ts';

/** Every proxy holds all of them, so they have to end somewhere. */
const MAX_PROFILES = 1_000;

export interface ProfileDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** A profile as the API shows it. */
export interface PresentedProfile extends ProfileSettings {
  readonly id: string;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface ProfileListQuery {
  readonly page_size?: string;
  readonly page_token?: string;
  readonly name_contains?: string;
}

export async function profileExists(tx: Tx, id: string): Promise<boolean> {
  return isId('prf', id) && (await findProfile(tx, id)) !== undefined;
}

export async function existingProfile(db: Database, id: string): Promise<ProfileRow> {
  return (isId('prf', id) ? await findProfile(db, id) : undefined) ?? raise(profileNotFound());
}

/** A row as requests are routed by it. */
export function routingProfileOf(row: ProfileRow): RoutingProfile {
  return routingProfile(row.id, settingsOf(row));
}

/** All profiles, as requests are routed by them. */
export async function routingProfiles(db: Database): Promise<RoutingProfile[]> {
  return (await findAllProfiles(db, MAX_PROFILES)).map(routingProfileOf);
}

export async function readProfile(deps: ProfileDeps, id: string): Promise<PresentedProfile> {
  return present(await existingProfile(deps.db, id));
}

export async function listProfiles(
  deps: ProfileDeps,
  query: ProfileListQuery,
): Promise<PageOf<PresentedProfile>> {
  const request = pageRequest('profiles', query, positionOf(part.text));
  const filter = { nameContains: query.name_contains };
  const rows = await findProfiles(deps.db, filter, request.after?.[0], request.size + 1);
  return page('profiles', request, rows, (row) => [row.name], present);
}

export async function createProfile(
  deps: ProfileDeps,
  caller: Caller,
  input: NewProfile,
): Promise<PresentedProfile> {
  const now = deps.now();
  const id = newId('prf');
  const name = requireProfileName(input.name);
  const targets = JSON.stringify(requireTargets(input.targets));
  return await deps.db.transaction().execute(async (tx) => {
    await requireFreeName(tx, id, name);
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
      ...times,
    });
    await recordChange(tx, {
      actor: caller,
      action: 'profile.created',
      resourceId: id,
      detail: { ...input },
      at: now,
    });
    return present(row);
  });
}

export async function changeProfile(
  deps: ProfileDeps,
  caller: Caller,
  id: string,
  input: ProfileChanges,
): Promise<PresentedProfile> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = present((await lockProfile(tx, id)) ?? raise(profileNotFound()));
    const changed = (Object.keys(input) as (keyof ProfileChanges)[]).filter(
      (field) => JSON.stringify(input[field]) !== JSON.stringify(before[field]),
    );
    if (changed.length === 0) return before;
    if (input.name !== undefined) await requireFreeName(tx, id, requireProfileName(input.name));
    const row = await updateProfile(tx, id, {
      ...(input.name !== undefined && { name: input.name }),
      ...(input.strategy !== undefined && { strategy: input.strategy }),
      ...(input.targets !== undefined && { targets: JSON.stringify(requireTargets(input.targets)) }),
      ...(input.constraints !== undefined && { constraints: JSON.stringify(input.constraints) }),
      ...(input.cache !== undefined && { cache: cacheColumn(input.cache) }),
      updated_at: now,
    });
    const detail = {
      changed: Object.fromEntries(changed.map((field) => [field, { from: before[field], to: input[field] }])),
    };
    await recordChange(tx, { actor: caller, action: 'profile.updated', resourceId: id, detail, at: now });
    return present(row);
  });
}

/** Refused, with 409, while a policy names the profile. */
export async function deleteProfile(
  deps: ProfileDeps,
  caller: Caller,
  id: string,
): Promise<PresentedProfile> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const row = (await lockProfile(tx, id)) ?? raise(profileNotFound());
    if (await profileIsUsed(tx, id)) {
      throw new AppError(
        'conflict',
        'profile_in_use',
        'A policy names this profile. Give it another one first.',
      );
    }
    await removeProfile(tx, id);
    await recordChange(tx, {
      actor: caller,
      action: 'profile.deleted',
      resourceId: id,
      detail: { name: row.name },
      at: now,
    });
    return present(row);
  });
}

async function requireFreeName(tx: Tx, id: string, name: string): Promise<void> {
  const taken = await findProfileByName(tx, name);
  if (!taken || taken.id === id) return;
  throw new AppError('conflict', 'profile_name_taken', `There is a profile "${name}" already: ${taken.id}.`, {
    param: 'name',
  });
}

function profileNotFound(): AppError {
  return new AppError('not_found', 'profile_not_found', 'There is no profile with this id.', {
    param: 'profile_id',
  });
}

function tooManyProfiles(): AppError {
  const message = `There are ${MAX_PROFILES} profiles already, which is as many as proxies hold. Delete one first.`;
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
  };
}

function present(row: ProfileRow): PresentedProfile {
  return {
    id: row.id,
    ...settingsOf(row),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
