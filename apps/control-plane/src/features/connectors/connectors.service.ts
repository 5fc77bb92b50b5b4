import type { Database } from '@weighbridge/database';
import { recordChange } from '../changes/changes.service.ts';
import {
  type ConnectorRow,
  disableConnector,
  findEnabledConnectors,
  findEnvironmentConnectors,
  upsertEnvironmentConnector,
} from './connectors.repository.ts';
import type { EnvironmentConnector } from './connectors.ts';

export interface ConnectorDeps {
  readonly db: Database;
  /** The credential behind a reference; undefined where it names nothing here. */
  readonly credential: (ref: string) => string | undefined;
}

/** A connector that can be used: enabled, with its credential at hand. */
export type UsableConnector = ConnectorRow & { readonly credential: string };

export async function usableConnectors(deps: ConnectorDeps): Promise<UsableConnector[]> {
  const rows = await findEnabledConnectors(deps.db);
  return rows.flatMap((row) => {
    const credential = row.credential_ref === null ? '' : deps.credential(row.credential_ref);
    return credential === undefined ? [] : [{ ...row, credential }];
  });
}

/** Makes the connectors of the environment those of the database; one whose key is no longer given is disabled. */
export async function applyEnvironmentConnectors(
  db: Database,
  wanted: readonly EnvironmentConnector[],
  now: Date,
): Promise<void> {
  const known = new Map((await findEnvironmentConnectors(db)).map((row) => [row.name, row]));
  const changed = wanted.filter((connector) => !isSame(connector, known.get(connector.name)));
  const gone = [...known.values()].filter(
    (row) => row.enabled && !wanted.some(({ name }) => name === row.name),
  );
  const actor = { principalId: 'environment', keyId: null };
  for (const connector of changed) {
    await db.transaction().execute(async (tx) => {
      const resourceId = await upsertEnvironmentConnector(tx, connector, now);
      const detail = { provider: connector.provider, base_url: connector.baseUrl };
      await recordChange(tx, { actor, action: 'connector.applied', resourceId, detail, at: now });
    });
  }
  for (const row of gone) {
    await db.transaction().execute(async (tx) => {
      await disableConnector(tx, row.id, now);
      await recordChange(tx, { actor, action: 'connector.disabled', resourceId: row.id, at: now });
    });
  }
}

function isSame(wanted: EnvironmentConnector, row: ConnectorRow | undefined): boolean {
  return (
    row?.enabled === true &&
    row.dialect === wanted.dialect &&
    row.base_url === wanted.baseUrl &&
    row.credential_ref === wanted.credentialRef
  );
}
