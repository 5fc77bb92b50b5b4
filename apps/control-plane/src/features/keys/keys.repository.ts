import { arrayLiteral, type Database, type Keys, type Tx } from '@weighbridge/database';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import type { VisibleObjects } from '../../shared/caller.ts';
import { containsText } from '../../shared/containsText.ts';

export type KeyRow = Selectable<Keys>;

export async function findKey(db: Database, id: string): Promise<KeyRow | undefined> {
  return await db.selectFrom('keys').selectAll().where('id', '=', id).executeTakeFirst();
}

/**
 * As `findKey`, and locks the row until the transaction ends. NO KEY UPDATE still lets others insert rows that refer to
 * it: they hold the row of the revision when they do, so a stronger lock would deadlock with them.
 */
export async function lockKey(tx: Tx, id: string): Promise<KeyRow | undefined> {
  return await tx.selectFrom('keys').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst();
}

/** Locks a key that issues another until the transaction ends: meanwhile it is neither changed nor revoked. */
export async function lockIssuer(tx: Tx, id: string): Promise<KeyRow | undefined> {
  return await tx.selectFrom('keys').selectAll().where('id', '=', id).forShare().executeTakeFirst();
}

/** How many keys of a principal are not revoked, counted up to `most`. */
export async function countKeysInUse(tx: Tx, principalId: string, most: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::integer AS count
    FROM (SELECT FROM keys WHERE principal_id = ${principalId} AND revoked_at IS NULL LIMIT ${most}) AS counted`.execute(
    tx,
  );
  return rows[0]?.count ?? 0;
}

/** Whether an owner of files has a key of this name that is not revoked. No other transaction issues one until this one ends. */
export async function lockManagedName(tx: Tx, managedBy: string, name: string): Promise<boolean> {
  const lock = JSON.stringify(['managed key', managedBy, name]);
  await sql`SELECT pg_advisory_xact_lock(hashtextextended(${lock}, 0))`.execute(tx);
  const found = await tx
    .selectFrom('keys')
    .select('id')
    .where('managed_by', '=', managedBy)
    .where('name', '=', name)
    .where('revoked_at', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/** The first key that was issued to a principal, revoked or not. */
export async function findFirstKeyOf(db: Database, principalId: string): Promise<KeyRow | undefined> {
  return await db
    .selectFrom('keys')
    .selectAll()
    .where('principal_id', '=', principalId)
    .orderBy('created_at')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst();
}

/** A key and the secret that it was found by. */
export interface KeyBySecret
  extends Pick<
    KeyRow,
    | 'id'
    | 'principal_id'
    | 'kind'
    | 'policy_id'
    | 'counter_key_id'
    | 'disabled'
    | 'scopes'
    | 'expires_at'
    | 'attribution'
    | 'issued_by_lead'
  > {
  readonly secret_hash: Buffer;
  readonly pepper_version: number;
  readonly secret_expires_at: Date | null;
}

/**
 * The keys with one of these secret hashes that are valid at `now`, and the revision as of which they were read. A replaced secret is
 * valid until its grace period ends.
 */
export async function findKeysBySecret(
  db: Database,
  hashes: readonly Buffer[],
  now: Date,
): Promise<{ readonly revision: bigint; readonly keys: KeyBySecret[] }> {
  const { rows } = await sql<{ revision: bigint } & (KeyBySecret | { readonly id: null })>`
    SELECT revision.revision, found.*
    FROM revision LEFT JOIN (
      SELECT keys.id, keys.principal_id, keys.kind, keys.policy_id, keys.counter_key_id, keys.disabled, keys.scopes,
        keys.expires_at, keys.attribution, keys.issued_by_lead, key_secrets.secret_hash, key_secrets.pepper_version,
        key_secrets.expires_at AS secret_expires_at
      FROM key_secrets JOIN keys ON keys.id = key_secrets.key_id
      -- The planner does not see the size of the array, so that it plans the prepared statement once for all.
      WHERE key_secrets.secret_hash = ANY ((SELECT ${hashes}::bytea[])::bytea[])
        AND (key_secrets.expires_at IS NULL OR key_secrets.expires_at > ${now})
    ) AS found ON true`.execute(db);
  const [first] = rows;
  if (!first) throw new Error('the database has no revision');
  return { revision: first.revision, keys: rows.flatMap((row) => (row.id === null ? [] : [row])) };
}

/** A secret as it is stored: hashed under a pepper. */
export interface HashedSecret {
  readonly hash: Buffer;
  readonly pepperVersion: number;
}

export async function insertKey(tx: Tx, row: Insertable<Keys>, secret: HashedSecret): Promise<KeyRow> {
  const key = await tx.insertInto('keys').values(row).returningAll().executeTakeFirstOrThrow();
  await insertSecret(tx, key.id, secret, key.created_at);
  return key;
}

export async function insertSecret(tx: Tx, keyId: string, secret: HashedSecret, now: Date): Promise<void> {
  await tx
    .insertInto('key_secrets')
    .values({
      secret_hash: secret.hash,
      pepper_version: secret.pepperVersion,
      key_id: keyId,
      created_at: now,
    })
    .execute();
}

/** Replaces the hash of a secret by one under another pepper. Does nothing if that was already done. */
export async function rehashSecret(db: Database, before: Buffer, after: HashedSecret): Promise<void> {
  await db
    .updateTable('key_secrets')
    .set({ secret_hash: after.hash, pepper_version: after.pepperVersion })
    .where('secret_hash', '=', before)
    .execute();
}

/** Makes the secrets of a key expire at `at`, or earlier if they already do. */
export async function expireSecrets(tx: Tx, keyId: string, at: Date): Promise<void> {
  await tx
    .updateTable('key_secrets')
    .set({ expires_at: sql`least(expires_at, ${at})` })
    .where('key_id', '=', keyId)
    .execute();
}

/** When replaced secrets stop working, by key, for the keys that have such a secret. */
export async function findGraceEnds(
  db: Database,
  keyIds: readonly string[],
  now: Date,
): Promise<ReadonlyMap<string, Date>> {
  if (keyIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('key_secrets')
    .select(['key_id', 'expires_at'])
    .where('key_id', 'in', keyIds)
    .where('expires_at', '>', now)
    .orderBy('expires_at')
    .execute();
  return new Map(rows.map(({ key_id, expires_at }) => [key_id, expires_at as Date]));
}

export interface KeyFilter extends VisibleObjects {
  /** The team that the key's principal is in now. */
  readonly teamId?: string | undefined;
  readonly policyId?: string | undefined;
  readonly kind?: 'service' | 'user' | undefined;
  readonly disabled?: boolean | undefined;
  readonly revoked?: boolean | undefined;
  readonly expiringBefore?: Date | undefined;
  readonly nameContains?: string | undefined;
  readonly managedBy?: string | undefined;
}

export type ListedKeyRow = KeyRow & { readonly governing_policy_id: string };

/** A page of keys with their governing policies, newest first. */
export async function findKeys(
  db: Database,
  filter: KeyFilter,
  after: { readonly createdAt: Date; readonly id: string } | undefined,
  limit: number,
): Promise<ListedKeyRow[]> {
  const governing = sql<string>`coalesce(
    keys.policy_id,
    principals.policy_id,
    teams.member_policy_id,
    teams.policy_id,
    (SELECT id FROM policies WHERE default_for = keys.kind),
    (SELECT id FROM policies WHERE default_for = 'all')
  )`;
  let query = db
    .selectFrom('keys')
    .innerJoin('principals', 'principals.id', 'keys.principal_id')
    .leftJoin('teams', 'teams.id', 'principals.team_id')
    .selectAll('keys')
    .select(governing.as('governing_policy_id'));
  if (filter.principalId !== undefined) query = query.where('keys.principal_id', '=', filter.principalId);
  const { within, teamId } = filter;
  if (within)
    query = query.where(
      sql<boolean>`(keys.principal_id = ${within.principalId} OR principals.team_id = ANY (${within.teamIds}::text[]))`,
    );
  if (teamId !== undefined) query = query.where('principals.team_id', '=', teamId);
  if (filter.policyId !== undefined) query = query.where(governing, '=', filter.policyId);
  if (filter.kind !== undefined) query = query.where('keys.kind', '=', filter.kind);
  if (filter.disabled !== undefined) query = query.where('keys.disabled', '=', filter.disabled);
  if (filter.revoked !== undefined)
    query = query.where('keys.revoked_at', filter.revoked ? 'is not' : 'is', null);
  if (filter.expiringBefore !== undefined) query = query.where('keys.expires_at', '<', filter.expiringBefore);
  if (filter.nameContains !== undefined) query = query.where(containsText('keys.name', filter.nameContains));
  if (filter.managedBy !== undefined) query = query.where('keys.managed_by', '=', filter.managedBy);
  if (after)
    query = query.where(sql<boolean>`(keys.created_at, keys.id) < (${after.createdAt}, ${after.id})`);
  return await query.orderBy('keys.created_at', 'desc').orderBy('keys.id', 'desc').limit(limit).execute();
}

/** The keys in use that expire in a range: how many, at most 1,000, and the ids of the first ten. */
export async function findExpiringKeys(
  db: Database,
  { principalId, within }: VisibleObjects,
  range: { readonly after: Date; readonly until: Date },
): Promise<{ readonly count: number; readonly first: string[] }> {
  const isVisible = within
    ? sql`principal_id = ${within.principalId} OR principal_id IN (
        SELECT id FROM principals WHERE team_id = ANY (${within.teamIds}::text[]))`
    : sql`${principalId ?? null}::text IS NULL OR principal_id = ${principalId ?? null}`;
  const { rows } = await sql<{ count: number; first: string[] }>`
    SELECT count(*)::integer AS count, coalesce((array_agg(id ORDER BY expires_at, id))[1:10], '{}') AS first
    FROM (
      SELECT id, expires_at FROM keys
      WHERE expires_at > ${range.after} AND expires_at <= ${range.until} AND revoked_at IS NULL AND NOT disabled
        AND NOT EXISTS (SELECT FROM playground_keys WHERE key_id = keys.id) AND (${isVisible})
      ORDER BY expires_at LIMIT 1000
    ) AS expiring`.execute(db);
  return rows[0] ?? { count: 0, first: [] };
}

export async function updateKey(tx: Tx, id: string, changes: Updateable<Keys>): Promise<KeyRow> {
  return await tx
    .updateTable('keys')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/**
 * Records when keys were last used, in Unix milliseconds; an earlier time changes nothing. This is not a change of the keys:
 * neither `updated_at` nor the revision moves. Locked in the order of ids, as all who lock several keys do.
 */
export async function recordLastUses(
  db: Database,
  uses: readonly (readonly [id: string, atMs: number])[],
): Promise<void> {
  const ids = arrayLiteral(uses.map(([id]) => id));
  const times = arrayLiteral(uses.map(([, atMs]) => new Date(atMs)));
  await sql`
    WITH due AS (
      SELECT keys.id, used.at
      FROM keys JOIN unnest(${ids}::text[], ${times}::timestamptz[]) AS used (id, at) USING (id)
      WHERE keys.last_used_at IS NULL OR keys.last_used_at < used.at
      ORDER BY keys.id
      FOR NO KEY UPDATE OF keys
    )
    UPDATE keys SET last_used_at = greatest(keys.last_used_at, due.at) FROM due WHERE keys.id = due.id`.execute(
    db,
  );
}

export async function anyKeyExists(db: Database): Promise<boolean> {
  return (await db.selectFrom('keys').select('id').limit(1).executeTakeFirst()) !== undefined;
}
