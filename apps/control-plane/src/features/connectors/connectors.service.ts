import type { Database } from '@weighbridge/database';
import { isId, newId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { recordChange } from '../changes/changes.service.ts';
import {
  type ConnectorRow,
  findConnector,
  findConnectorsOf,
  findEnabledConnectors,
  findEnvironmentConnectors,
  insertConnector,
  lockSealedUnderOthers,
  updateConnector,
} from './connectors.repository.ts';
import type { EnvironmentConnector } from './connectors.ts';
import type { Credential, Credentials } from './credentials.ts';
import { baseUrlFault, type UpstreamHosts } from './upstreamHosts.ts';

export type { ConnectorRow };

export interface ConnectorDeps {
  readonly db: Database;
  readonly credentials: Credentials;
  readonly upstreamHosts: UpstreamHosts;
}

/** A connector that can be used: enabled, with its credential at hand. */
export type UsableConnector = ConnectorRow & {
  /** Empty where the upstream wants none. */
  readonly credential: string;
  readonly allowPrivateAddress: boolean;
};

export async function usableConnectors(deps: ConnectorDeps): Promise<UsableConnector[]> {
  const rows = await findEnabledConnectors(deps.db);
  const all = await Promise.all(
    rows.map(async (row) => {
      const credential = await credentialOf(deps, row);
      if ('unusable' in credential) return [];
      return [{ ...row, credential: credential.value, allowPrivateAddress: mayBePrivate(deps, row) }];
    }),
  );
  return all.flat();
}

/** The connectors of some providers, each with why it can't be used; undefined where it can. */
export async function judgedConnectors(
  deps: ConnectorDeps,
  providers: readonly string[],
): Promise<{ readonly row: ConnectorRow; readonly unusable: string | undefined }[]> {
  const rows = await findConnectorsOf(deps.db, providers);
  return await Promise.all(
    rows.map(async (row) => {
      if (!row.enabled) return { row, unusable: 'It is disabled.' };
      const credential = await credentialOf(deps, row);
      return { row, unusable: 'unusable' in credential ? credential.unusable : undefined };
    }),
  );
}

/** A connector that is not deleted. Any other is not found. */
export async function existingConnector(db: Database, id: string): Promise<ConnectorRow> {
  const row = isId('con', id) ? await findConnector(db, id) : undefined;
  if (row) return row;
  throw connectorNotFound();
}

export function connectorNotFound(): AppError {
  return new AppError('not_found', 'connector_not_found', 'There is no connector with this id.', {
    param: 'connector_id',
  });
}

/** What a connector needs to be used, besides being enabled: its credential, and an address that is allowed here. */
export async function credentialOf(
  { credentials, upstreamHosts }: ConnectorDeps,
  row: ConnectorRow,
): Promise<Credential> {
  if (row.withdrawn) return { unusable: 'The environment of the control plane no longer asks for it.' };
  // The environment's own are the deployment's choice; an operator's may have been allowed at another time.
  const fault = row.origin === 'environment' ? undefined : baseUrlFault(row.base_url, upstreamHosts);
  if (fault !== undefined) return { unusable: `Its base_url can't be used: ${fault}.` };
  if (row.credential_ref !== null) return await credentials.read(row.credential_ref);
  if (row.credential_sealed === null || row.credential_kek_id === null) return { value: '' };
  return unseal(credentials, row.id, row.credential_sealed, row.credential_kek_id);
}

/** Where a credential is sealed for: no other row opens it. */
export function placeOf(connectorId: string): string {
  return `connectors/${connectorId}`;
}

export function mayBePrivate({ upstreamHosts }: ConnectorDeps, row: ConnectorRow): boolean {
  return row.origin === 'environment' || upstreamHosts.allows(new URL(row.base_url));
}

function unseal({ sealer }: Credentials, id: string, bytes: Buffer, kekId: string): Credential {
  try {
    const value = sealer.open({ bytes, kekId }, placeOf(id));
    return value === undefined
      ? {
          unusable: `Its credential is sealed under the key-encryption key ${kekId}, which is not given here.`,
        }
      : { value };
  } catch {
    return { unusable: 'Its sealed credential was changed outside the service: set it anew.' };
  }
}

/** Makes the connectors of the environment those of the database; one whose key is no longer given is withdrawn. */
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
  const actor = { principalId: 'environment', identity: null };
  for (const connector of changed) {
    await db.transaction().execute(async (tx) => {
      const facts = {
        provider: connector.provider,
        dialect: connector.dialect,
        base_url: connector.baseUrl,
        credential_ref: connector.credentialRef,
        withdrawn: false,
        updated_at: now,
      };
      const before = known.get(connector.name);
      const { name } = connector;
      // What an operator set stays: whether it is enabled, its priority, its prices.
      const row = before
        ? await updateConnector(tx, before.id, facts)
        : await insertConnector(tx, {
            id: newId('con'),
            name,
            origin: 'environment',
            created_at: now,
            ...facts,
          });
      // Another control plane that starts at the same moment made it.
      if (!row) return;
      const detail = { provider: connector.provider, base_url: connector.baseUrl };
      await recordChange(tx, { actor, action: 'connector.applied', resourceId: row.id, detail, at: now });
    });
  }
  for (const row of gone) {
    await db.transaction().execute(async (tx) => {
      await updateConnector(tx, row.id, { withdrawn: true, updated_at: now });
      await recordChange(tx, { actor, action: 'connector.withdrawn', resourceId: row.id, at: now });
    });
  }
}

/**
 * Brings every sealed credential under the current key-encryption key, so that the previous ones can be forgotten.
 * Returns how many it moved, and how many it could not open.
 */
export async function resealCredentials(
  { db, credentials: { sealer } }: ConnectorDeps,
  now: Date,
): Promise<{ resealed: number; unopened: number }> {
  const kekId = sealer.currentKekId;
  if (kekId === undefined) return { resealed: 0, unopened: 0 };
  return await db.transaction().execute(async (tx) => {
    const rows = await lockSealedUnderOthers(tx, kekId);
    const ids: string[] = [];
    for (const { id, credential_sealed: bytes, credential_kek_id: from } of rows) {
      const sealed = bytes && from && reseal(sealer, { bytes, kekId: from }, placeOf(id));
      if (!sealed) continue;
      await updateConnector(tx, id, { credential_sealed: sealed.bytes, credential_kek_id: sealed.kekId });
      ids.push(id);
    }
    if (ids.length > 0) {
      const actor = { principalId: 'environment', identity: null };
      const detail = { connectors: ids, kek_id: kekId };
      await recordChange(tx, {
        actor,
        action: 'credentials.resealed',
        resourceId: 'connectors',
        detail,
        at: now,
      });
    }
    return { resealed: ids.length, unopened: rows.length - ids.length };
  });
}

function reseal(sealer: Credentials['sealer'], sealed: { bytes: Buffer; kekId: string }, place: string) {
  try {
    return sealer.reseal(sealed, place);
  } catch {
    return undefined;
  }
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
