import { isDeepStrictEqual } from 'node:util';
import type { Tx } from '@weighbridge/database';
import { newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordChange } from '../changes/changes.service.ts';
import { type ProbeResult, probe } from './connectorProbe.ts';
import {
  type ConnectorChanges,
  connectorName,
  ENVIRONMENTS_FIELDS,
  modelPatterns,
  type NewConnector,
  upstreamNames,
  wireOf,
} from './connectorSettings.ts';
import {
  findConnectors,
  insertConnector,
  isNameTaken,
  lockConnector,
  updateConnector,
} from './connectors.repository.ts';
import {
  type ConnectorDeps,
  type ConnectorRow,
  connectorNotFound,
  credentialOf,
  existingConnector,
  mayBePrivate,
} from './connectors.service.ts';
import { changedCredential, checkCredentialStaysHome, newCredential } from './credentialColumns.ts';
import { type PresentedConnector, presentConnector } from './presentConnector.ts';
import { checkedBaseUrl } from './upstreamHosts.ts';

export type ConnectorAdminDeps = ConnectorDeps & { readonly now: () => Date };

export interface ConnectorQuery {
  readonly page_size?: string;
  readonly page_token?: string;
  readonly provider?: string;
  readonly enabled?: 'true' | 'false';
  readonly name_contains?: string;
}

const TEST_TIMEOUT_MS = 10_000;

export async function listConnectors(
  deps: ConnectorAdminDeps,
  query: ConnectorQuery,
): Promise<PageOf<PresentedConnector>> {
  const request = pageRequest('connectors', query, positionOf(part.id('con')));
  const filter = {
    provider: query.provider,
    enabled: query.enabled && query.enabled === 'true',
    nameContains: query.name_contains,
  };
  const before = request.after?.[0];
  const rows = await findConnectors(deps.db, { filter, before, limit: request.size + 1 });
  const { data, next_page_token } = page(
    'connectors',
    request,
    rows,
    (row) => [row.id],
    (row) => row,
  );
  return { data: await Promise.all(data.map((row) => presentConnector(deps, row))), next_page_token };
}

export async function readConnector(deps: ConnectorAdminDeps, id: string): Promise<PresentedConnector> {
  return await presentConnector(deps, await existingConnector(deps.db, id));
}

export async function createConnector(
  deps: ConnectorAdminDeps,
  caller: Caller,
  input: NewConnector,
): Promise<PresentedConnector> {
  const now = deps.now();
  const id = newId('con');
  const name = connectorName(input.name);
  const { dialect, baseUrl } = wireOf(input);
  const row = {
    id,
    name,
    provider: input.provider,
    dialect,
    base_url: checkedBaseUrl(baseUrl, deps.upstreamHosts),
    ...newCredential(deps, id, input),
    enabled: input.enabled ?? true,
    priority: input.priority ?? 0,
    weight: input.weight ?? 1,
    max_parallel: input.max_parallel ?? null,
    connect_timeout_ms: input.connect_timeout_ms ?? null,
    first_byte_timeout_ms: input.first_byte_timeout_ms ?? null,
    chunk_timeout_ms: input.chunk_timeout_ms ?? null,
    models: modelPatterns(input.provider, input.models ?? []),
    upstream_names: JSON.stringify(upstreamNames(input.provider, input.upstream_names ?? {})),
    origin: 'operator' as const,
    created_at: now,
    updated_at: now,
  };
  const created = await deps.db.transaction().execute(async (tx) => {
    const inserted = (await insertConnector(tx, row)) ?? raise(nameTaken(name));
    await recordChange(tx, {
      actor: caller,
      action: 'connector.created',
      resourceId: id,
      detail: { name, provider: row.provider, base_url: row.base_url },
      at: now,
    });
    return inserted;
  });
  return await presentConnector(deps, created);
}

export async function changeConnector(
  deps: ConnectorAdminDeps,
  caller: Caller,
  id: string,
  input: ConnectorChanges,
): Promise<PresentedConnector> {
  const now = deps.now();
  const after = await deps.db.transaction().execute(async (tx) => {
    const before = (await lockConnector(tx, id)) ?? raise(connectorNotFound());
    if (before.origin === 'environment') checkNotEnvironments(before, input);
    const changes = await permittedChanges(deps, tx, before, input);
    const changed = Object.keys(changes).filter((name) => name !== 'credential_kek_id');
    if (changed.length === 0) return before;
    const row = await updateConnector(tx, id, { ...changes, updated_at: now }).catch((error) => {
      // Somebody took the name at the same moment.
      throw isUniqueViolation(error) && changes.name !== undefined ? nameTaken(changes.name) : error;
    });
    await recordChange(tx, {
      actor: caller,
      action: 'connector.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return row;
  });
  return await presentConnector(deps, after);
}

/** Takes a connector out of use for good, and forgets its credential. What the ledger says of it stays readable. */
export async function deleteConnector(
  deps: ConnectorAdminDeps,
  caller: Caller,
  id: string,
): Promise<PresentedConnector> {
  const now = deps.now();
  const row = await deps.db.transaction().execute(async (tx) => {
    const before = (await lockConnector(tx, id)) ?? raise(connectorNotFound());
    if (before.origin === 'environment' && !before.withdrawn) {
      throw new AppError(
        'conflict',
        'connector_of_environment',
        `The environment of the control plane asks for this connector. Take ${variableOf(before)} out of it first, or disable the connector.`,
        { param: 'connector_id' },
      );
    }
    const deleted = await updateConnector(tx, id, {
      enabled: false,
      credential_ref: null,
      credential_sealed: null,
      credential_kek_id: null,
      deleted_at: now,
      updated_at: now,
    });
    await recordChange(tx, {
      actor: caller,
      action: 'connector.deleted',
      resourceId: id,
      detail: { name: before.name },
      at: now,
    });
    return deleted;
  });
  return await presentConnector(deps, row);
}

/** Tries the connector's credential with a cheap call. */
export async function testConnector(deps: ConnectorAdminDeps, id: string): Promise<ProbeResult> {
  const row = await existingConnector(deps.db, id);
  const credential = await credentialOf(deps, row);
  if ('unusable' in credential) {
    return { ok: false, status: null, latency_ms: 0, message: credential.unusable };
  }
  return await probe({
    baseUrl: row.base_url,
    dialect: row.dialect,
    credential: credential.value,
    allowPrivateAddress: mayBePrivate(deps, row),
    timeoutMs: TEST_TIMEOUT_MS,
  });
}

type Changes = Parameters<typeof updateConnector>[2];

/** What really changes, once every rule allows it: a field that keeps its value changes nothing. */
async function permittedChanges(
  deps: ConnectorAdminDeps,
  tx: Tx,
  row: ConnectorRow,
  input: ConnectorChanges,
): Promise<Changes> {
  const changes: Changes = {};
  if (input.name !== undefined && input.name.trim() !== row.name) {
    const name = connectorName(input.name);
    if (await isNameTaken(tx, name)) throw nameTaken(name);
    changes.name = name;
  }
  if (input.dialect !== undefined && input.dialect !== row.dialect) changes.dialect = input.dialect;
  if (input.base_url !== undefined) {
    const baseUrl = checkedBaseUrl(input.base_url, deps.upstreamHosts);
    if (baseUrl !== row.base_url) changes.base_url = baseUrl;
  }
  const models = input.models && modelPatterns(row.provider, input.models);
  if (models && !isDeepStrictEqual(models, row.models)) changes.models = models;
  const names = input.upstream_names && upstreamNames(row.provider, input.upstream_names);
  if (names && !isDeepStrictEqual(names, row.upstream_names)) changes.upstream_names = JSON.stringify(names);
  for (const field of PLAIN_FIELDS) {
    const value = input[field];
    if (value !== undefined && value !== row[field]) Object.assign(changes, { [field]: value });
  }
  Object.assign(changes, changedCredential(deps, row, input));
  checkCredentialStaysHome(row, changes);
  return changes;
}

/** What is kept as it is given. */
const PLAIN_FIELDS = [
  'enabled',
  'priority',
  'weight',
  'max_parallel',
  'connect_timeout_ms',
  'first_byte_timeout_ms',
  'chunk_timeout_ms',
] as const;

function checkNotEnvironments(row: ConnectorRow, input: ConnectorChanges): void {
  const field = ENVIRONMENTS_FIELDS.find(
    (name) => input[name] !== undefined && input[name] !== row[name as 'name'],
  );
  if (field === undefined) return;
  throw new AppError(
    'conflict',
    'connector_of_environment',
    `${field} is the environment's: change ${variableOf(row)} there, or create a connector of your own.`,
    { param: field },
  );
}

/** The setting that made a connector. */
function variableOf(row: ConnectorRow): string {
  return row.credential_ref?.replace(/^env:/, '') ?? 'MOCK_VENDOR_URL';
}

function isUniqueViolation(error: unknown): boolean {
  return (error as { readonly code?: unknown }).code === '23505';
}

function nameTaken(name: string): AppError {
  return new AppError(
    'conflict',
    'connector_name_taken',
    `There is a connector with the name "${name}" already: choose another name.`,
    { param: 'name' },
  );
}
