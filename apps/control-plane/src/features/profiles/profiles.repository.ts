import type { Database, Profiles, Tx } from '@weighbridge/database';
import { ROUTER_PREFIX } from '@weighbridge/domain';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type ProfileRow = Selectable<Profiles>;

export async function findProfile(db: Database, id: string): Promise<ProfileRow | undefined> {
  return await db.selectFrom('profiles').selectAll().where('id', '=', id).executeTakeFirst();
}

export async function findProfileByName(db: Database, name: string): Promise<ProfileRow | undefined> {
  return await db.selectFrom('profiles').selectAll().where('name', '=', name).executeTakeFirst();
}

/** A page of profiles by name. */
export async function findProfiles(
  db: Database,
  filter: { readonly nameContains?: string | undefined },
  after: string | undefined,
  limit: number,
): Promise<ProfileRow[]> {
  let query = db.selectFrom('profiles').selectAll();
  if (filter.nameContains !== undefined) query = query.where(containsText('name', filter.nameContains));
  if (after !== undefined) query = query.where('name', '>', after);
  return await query.orderBy('name').limit(limit).execute();
}

/** All profiles by name, at most `limit`. */
export async function findAllProfiles(db: Database, limit: number): Promise<ProfileRow[]> {
  return await db.selectFrom('profiles').selectAll().orderBy('name').limit(limit).execute();
}

export async function countProfiles(tx: Tx): Promise<number> {
  const { count } = await tx
    .selectFrom('profiles')
    .select((row) => row.fn.countAll<bigint>().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

export async function insertProfile(tx: Tx, row: Insertable<Profiles>): Promise<ProfileRow> {
  return await tx.insertInto('profiles').values(row).returningAll().executeTakeFirstOrThrow();
}

export async function updateProfile(tx: Tx, id: string, changes: Updateable<Profiles>): Promise<ProfileRow> {
  return await tx
    .updateTable('profiles')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Removes a profile that no policy names. Deleted policies keep their rows, and forget it. */
export async function removeProfile(tx: Tx, id: string): Promise<void> {
  await tx
    .updateTable('policies')
    .set({ profile_id: null })
    .where('profile_id', '=', id)
    .where('deleted_at', 'is not', null)
    .execute();
  await tx.deleteFrom('profiles').where('id', '=', id).execute();
}

/** A policy that names the profile. */
export async function findProfileUser(tx: Tx, id: string): Promise<string | undefined> {
  const user = await tx
    .selectFrom('policies')
    .select('id')
    .where((where) => where.or([where('profile_id', '=', id), where('exhausted_profile_id', '=', id)]))
    .where('deleted_at', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return user?.id;
}

/** Whether a profile exists. It is not deleted before the transaction ends. */
export async function keepProfile(tx: Tx, id: string): Promise<boolean> {
  const row = await tx
    .selectFrom('profiles')
    .select('id')
    .where('id', '=', id)
    .forKeyShare()
    .executeTakeFirst();
  return row !== undefined;
}

/** An arbitrary number, the same in every control plane. */
const NAMES_LOCK = 5_213_844_109;

/** Lets no other transaction add or rename a profile before this one ends. */
export async function lockProfileNames(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${NAMES_LOCK})`.execute(tx);
}

/** The id of an alias that stands for the profile of this name. */
export async function findProfileAlias(tx: Tx, name: string): Promise<string | undefined> {
  const alias = await tx
    .selectFrom('aliases')
    .select('id')
    .where('target', '=', `${ROUTER_PREFIX}${name}`)
    .limit(1)
    .executeTakeFirst();
  return alias?.id;
}

/** Reads a profile and locks it until the transaction ends. */
export async function lockProfile(tx: Tx, id: string): Promise<ProfileRow | undefined> {
  return await tx.selectFrom('profiles').selectAll().where('id', '=', id).forUpdate().executeTakeFirst();
}
