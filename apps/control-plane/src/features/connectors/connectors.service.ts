import type { Database } from '@weighbridge/database';
import { isId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  type ConnectorRow,
  findConnector,
  findConnectorsOf,
  findEnabledConnectors,
} from './connectors.repository.ts';
import type { Connector } from './connectors.schemas.ts';
import type { Credential, Credentials } from './credentials.ts';
import { baseUrlFault, type UpstreamHosts } from './upstreamHosts.ts';

export type { ConnectorRow };

export interface ConnectorDeps {
  readonly db: Database;
  readonly credentials: Credentials;
  readonly upstreamHosts: UpstreamHosts;
}

/** An enabled connector whose credential could be read. */
export type UsableConnector = ConnectorRow & {
  /** Empty if the upstream needs none. */
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

/** The connectors of some providers, each with the reason why it is unusable; undefined if it is usable. */
export async function connectorsWithUsability(
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

/** Reads a connector; throws a 404 if it does not exist or is deleted. */
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

/** The credential of a connector, or the reason why it is unusable. Whether it is enabled does not matter. */
export async function credentialOf(
  { credentials, upstreamHosts }: ConnectorDeps,
  row: ConnectorRow,
): Promise<Credential> {
  if (row.withdrawn) return { unusable: 'The environment of the control plane no longer defines it.' };
  // The deployment chose the URLs of its environment. An operator's URL may have been allowed by earlier settings.
  const fault = row.origin === 'environment' ? undefined : baseUrlFault(row.base_url, upstreamHosts);
  if (fault !== undefined) return { unusable: `Its base_url cannot be used: ${fault}.` };
  if (row.credential_ref !== null) {
    const bound =
      row.origin === 'environment' ? undefined : credentials.hosts.fault(row.credential_ref, row.base_url);
    return bound === undefined
      ? await credentials.read(row.credential_ref)
      : { unusable: `Its credential_ref cannot be used: ${bound}.` };
  }
  if (row.credential_sealed === null || row.credential_kek_id === null) return { value: '' };
  return unseal(credentials, row.id, row.credential_sealed, row.credential_kek_id);
}

/** The additional data that a credential is sealed with, so that it opens for its own row only. */
export function sealContext(connectorId: string): string {
  return `connectors/${connectorId}`;
}

/** Whether the host may resolve to a private address. */
export function mayBePrivate({ upstreamHosts }: ConnectorDeps, row: ConnectorRow): boolean {
  return row.origin === 'environment' || upstreamHosts.allows(new URL(row.base_url));
}

function unseal({ sealer }: Credentials, id: string, bytes: Buffer, kekId: string): Credential {
  try {
    const value = sealer.open({ bytes, kekId }, sealContext(id));
    return value === undefined
      ? {
          unusable: `Its credential is sealed under the key-encryption key ${kekId}, which the control plane does not have.`,
        }
      : { value };
  } catch {
    return { unusable: 'Its sealed credential was modified outside the service. Set it again.' };
  }
}

/** Whether the deployment limits where the referenced credential may go; null without a reference. */
function isBound(
  { credentials }: ConnectorDeps,
  { credential_ref: ref, origin }: ConnectorRow,
): boolean | null {
  if (ref === null) return null;
  return origin === 'environment' || credentials.hosts.isBound(ref);
}

/** The connector of a row as the API shows it. */
export async function toConnector(deps: ConnectorDeps, row: ConnectorRow): Promise<Connector> {
  const credential = await credentialOf(deps, row);
  const reason = 'unusable' in credential ? credential.unusable : null;
  return {
    id: row.id,
    name: row.name,
    provider: row.provider,
    dialect: row.dialect,
    base_url: row.base_url,
    credential_ref: row.credential_ref,
    credential_sealed: row.credential_sealed !== null,
    credential_bound: isBound(deps, row),
    usable: reason === null,
    unusable_reason: reason,
    enabled: row.enabled,
    priority: row.priority,
    weight: row.weight,
    max_parallel: row.max_parallel,
    connect_timeout_ms: row.connect_timeout_ms,
    first_byte_timeout_ms: row.first_byte_timeout_ms,
    chunk_timeout_ms: row.chunk_timeout_ms,
    on_disconnect: row.on_disconnect as 'cancel' | 'drain' | null,
    forward_headers: row.forward_headers,
    models: row.models,
    upstream_names: row.upstream_names as Record<string, string>,
    origin: row.origin,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
