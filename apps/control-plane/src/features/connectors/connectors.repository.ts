import type { Connectors, Database, Tx } from '@weighbridge/database';
import { newId } from '@weighbridge/domain';
import type { Selectable } from 'kysely';
import type { EnvironmentConnector } from './connectors.ts';

export type ConnectorRow = Selectable<Connectors>;

export async function findEnabledConnectors(db: Database): Promise<ConnectorRow[]> {
  return await db
    .selectFrom('connectors')
    .selectAll()
    .where('enabled', '=', true)
    .orderBy('priority')
    .orderBy('id')
    .execute();
}

export async function findEnvironmentConnectors(db: Database): Promise<ConnectorRow[]> {
  return await db.selectFrom('connectors').selectAll().where('origin', '=', 'environment').execute();
}

export async function upsertEnvironmentConnector(
  tx: Tx,
  connector: EnvironmentConnector,
  now: Date,
): Promise<string> {
  const facts = {
    provider: connector.provider,
    dialect: connector.dialect,
    base_url: connector.baseUrl,
    credential_ref: connector.credentialRef,
    enabled: true,
    updated_at: now,
  };
  const { id } = await tx
    .insertInto('connectors')
    .values({ id: newId('con'), name: connector.name, origin: 'environment', created_at: now, ...facts })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(facts))
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

export async function disableConnector(tx: Tx, id: string, now: Date): Promise<void> {
  await tx.updateTable('connectors').set({ enabled: false, updated_at: now }).where('id', '=', id).execute();
}
