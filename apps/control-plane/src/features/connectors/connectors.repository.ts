import type { Connectors, Database, Tx } from '@weighbridge/database';
import type { Insertable, Selectable, Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type ConnectorRow = Selectable<Connectors>;

export interface ConnectorFilter {
  readonly provider: string | undefined;
  readonly enabled: boolean | undefined;
  readonly nameContains: string | undefined;
}

/** The enabled connectors, in the order in which they are tried. */
export async function findEnabledConnectors(db: Database): Promise<ConnectorRow[]> {
  return await db
    .selectFrom('connectors')
    .selectAll()
    .where('enabled', '=', true)
    .where('withdrawn', '=', false)
    .where('deleted_at', 'is', null)
    .orderBy('priority')
    .orderBy('id')
    .execute();
}

/** All connectors of these providers, enabled or not. */
export async function findConnectorsOf(db: Database, providers: readonly string[]): Promise<ConnectorRow[]> {
  if (providers.length === 0) return [];
  return await db
    .selectFrom('connectors')
    .selectAll()
    .where('provider', 'in', providers)
    .where('deleted_at', 'is', null)
    .orderBy('priority')
    .orderBy('id')
    .execute();
}

export async function findEnvironmentConnectors(db: Database): Promise<ConnectorRow[]> {
  return await db
    .selectFrom('connectors')
    .selectAll()
    .where('origin', '=', 'environment')
    .where('deleted_at', 'is', null)
    .execute();
}

export async function findConnector(db: Database, id: string): Promise<ConnectorRow | undefined> {
  return await db
    .selectFrom('connectors')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

/** As `findConnector`, and locks the connector and its prices until the transaction ends. */
export async function lockConnector(tx: Tx, id: string): Promise<ConnectorRow | undefined> {
  return await tx
    .selectFrom('connectors')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .forUpdate()
    .executeTakeFirst();
}

/** A page of connectors, newest first (their ids sort by time). */
export async function findConnectors(
  db: Database,
  { filter, before, limit }: { filter: ConnectorFilter; before: string | undefined; limit: number },
): Promise<ConnectorRow[]> {
  const { provider, enabled, nameContains } = filter;
  return await db
    .selectFrom('connectors')
    .selectAll()
    .where('deleted_at', 'is', null)
    .$if(before !== undefined, (query) => query.where('id', '<', before ?? ''))
    .$if(provider !== undefined, (query) => query.where('provider', '=', provider ?? ''))
    .$if(enabled === true, (query) => query.where('enabled', '=', true).where('withdrawn', '=', false))
    .$if(enabled === false, (query) =>
      query.where((where) => where.or([where('enabled', '=', false), where('withdrawn', '=', true)])),
    )
    .$if(nameContains !== undefined, (query) => query.where(containsText('name', nameContains ?? '')))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Locks the connectors whose credential or auth is sealed under another key-encryption key. */
export async function lockSealedUnderOtherKeys(tx: Tx, kekId: string): Promise<ConnectorRow[]> {
  return await tx
    .selectFrom('connectors')
    .selectAll()
    .where((where) => where.or([where('credential_kek_id', '!=', kekId), where('auth_kek_id', '!=', kekId)]))
    .orderBy('id')
    .forUpdate()
    .execute();
}

/** Inserts nothing and returns undefined if the name is taken. */
export async function insertConnector(
  tx: Tx,
  row: Insertable<Connectors>,
): Promise<ConnectorRow | undefined> {
  return await tx
    .insertInto('connectors')
    .values(row)
    .onConflict((conflict) => conflict.column('name').where('deleted_at', 'is', null).doNothing())
    .returningAll()
    .executeTakeFirst();
}

export async function updateConnector(
  tx: Tx,
  id: string,
  changes: Updateable<Connectors>,
): Promise<ConnectorRow> {
  return await tx
    .updateTable('connectors')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function isNameTaken(tx: Tx, name: string): Promise<boolean> {
  const row = await tx
    .selectFrom('connectors')
    .select('id')
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
  return row !== undefined;
}
