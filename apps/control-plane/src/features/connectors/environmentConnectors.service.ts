import type { Database } from '@weighbridge/database';
import { newId } from '@weighbridge/domain';
import { recordChange } from '../changes/changes.service.ts';
import {
  type ConnectorRow,
  findEnvironmentConnectors,
  insertConnector,
  updateConnector,
} from './connectors.repository.ts';
import type { EnvironmentConnector } from './environmentConnectors.ts';

const ACTOR = { principalId: 'environment', identity: null };

/** Creates, updates and withdraws connectors in the database so that they match the environment. */
export async function applyEnvironmentConnectors(
  db: Database,
  wanted: readonly EnvironmentConnector[],
  now: Date,
): Promise<void> {
  const known = new Map((await findEnvironmentConnectors(db)).map((row) => [row.name, row]));
  const changed = wanted.filter((connector) => !isSame(connector, known.get(connector.name)));
  const gone = [...known.values()].filter(
    (row) => !row.withdrawn && !wanted.some(({ name }) => name === row.name),
  );
  for (const connector of changed) await apply(db, connector, known.get(connector.name), now);
  for (const row of gone) await withdraw(db, row, now);
}

async function apply(
  db: Database,
  connector: EnvironmentConnector,
  before: ConnectorRow | undefined,
  now: Date,
): Promise<void> {
  const { name, provider, dialect, baseUrl, credentialRef } = connector;
  const columns = {
    provider,
    dialect,
    base_url: baseUrl,
    credential_ref: credentialRef,
    withdrawn: false,
    updated_at: now,
  };
  await db.transaction().execute(async (tx) => {
    // Settings of an operator stay: whether it is enabled, its priority, its prices.
    const row = before
      ? await updateConnector(tx, before.id, columns)
      : await insertConnector(tx, {
          id: newId('con'),
          name,
          origin: 'environment',
          created_at: now,
          ...columns,
        });
    // Another control plane created it at the same time.
    if (!row) return;
    const detail = { provider, base_url: baseUrl };
    await recordChange(tx, {
      actor: ACTOR,
      action: 'connector.applied',
      resourceId: row.id,
      detail,
      at: now,
    });
  });
}

async function withdraw(db: Database, { id }: ConnectorRow, now: Date): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await updateConnector(tx, id, { withdrawn: true, updated_at: now });
    await recordChange(tx, { actor: ACTOR, action: 'connector.withdrawn', resourceId: id, at: now });
  });
}

function isSame(wanted: EnvironmentConnector, row: ConnectorRow | undefined): boolean {
  return (
    row?.withdrawn === false &&
    row.provider === wanted.provider &&
    row.dialect === wanted.dialect &&
    row.base_url === wanted.baseUrl &&
    row.credential_ref === wanted.credentialRef
  );
}
