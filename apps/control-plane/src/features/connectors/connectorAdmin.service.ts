import { isDeepStrictEqual } from 'node:util';
import type { Tx } from '@weighbridge/database';
import { newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { type AssertMatch, changedAt } from '../../shared/preconditions.ts';
import { recordChange } from '../changes/changes.service.ts';
import { changedAccess, newAccess } from './authColumns.ts';
import {
  findConnectors,
  insertConnector,
  isNameTaken,
  lockConnector,
  updateConnector,
} from './connectors.repository.ts';
import type { Connector, ConnectorChanges, ConnectorQuery, NewConnector } from './connectors.schemas.ts';
import {
  type ConnectorDeps,
  type ConnectorRow,
  connectorNotFound,
  existingConnector,
  toConnector,
} from './connectors.service.ts';
import {
  dialectAndBaseUrl,
  ENVIRONMENT_FIELDS,
  validChat,
  validConnectorName,
  validForwardHeaders,
  validModelPatterns,
  validUpstreamNames,
} from './connectors.ts';
import { validBaseUrl } from './upstreamHosts.ts';

export type ConnectorAdminDeps = ConnectorDeps & { readonly now: () => Date };

export async function listConnectors(
  deps: ConnectorAdminDeps,
  query: ConnectorQuery,
): Promise<PageOf<Connector>> {
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
  return { data: await Promise.all(data.map((row) => toConnector(deps, row))), next_page_token };
}

export async function readConnector(deps: ConnectorAdminDeps, id: string): Promise<Connector> {
  return await toConnector(deps, await existingConnector(deps.db, id));
}

export async function createConnector(
  deps: ConnectorAdminDeps,
  caller: Caller,
  input: NewConnector,
): Promise<Connector> {
  const now = deps.now();
  const id = newId('con');
  const name = validConnectorName(input.name);
  const { dialect, baseUrl: url } = dialectAndBaseUrl(input);
  const baseUrl = validBaseUrl(url, deps.upstreamHosts);
  const row = {
    id,
    name,
    provider: input.provider,
    dialect,
    base_url: baseUrl,
    ...newAccess(deps, id, input, baseUrl),
    enabled: input.enabled ?? true,
    priority: input.priority ?? 0,
    weight: input.weight ?? 1,
    max_parallel: input.max_parallel ?? null,
    requests_per_minute: input.requests_per_minute ?? null,
    tokens_per_minute: tokensColumn(input.tokens_per_minute ?? null),
    connect_timeout_ms: input.connect_timeout_ms ?? null,
    first_byte_timeout_ms: input.first_byte_timeout_ms ?? null,
    chunk_timeout_ms: input.chunk_timeout_ms ?? null,
    on_disconnect: input.on_disconnect ?? null,
    chat: validChat(input.provider, input.chat ?? 'native'),
    forward_headers: validForwardHeaders(input.forward_headers ?? []),
    models: validModelPatterns(input.provider, input.models ?? []),
    upstream_names: JSON.stringify(validUpstreamNames(input.provider, input.upstream_names ?? {})),
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
  return await toConnector(deps, created);
}

export async function changeConnector(
  deps: ConnectorAdminDeps,
  caller: Caller,
  id: string,
  input: ConnectorChanges,
  assertMatch: AssertMatch,
): Promise<Connector> {
  const now = deps.now();
  const after = await deps.db.transaction().execute(async (tx) => {
    const before = (await lockConnector(tx, id)) ?? raise(connectorNotFound());
    assertMatch(await toConnector(deps, before));
    if (before.origin === 'environment') assertNotFromEnvironment(before, input);
    const changes = await permittedChanges(deps, tx, before, input);
    const changed = Object.keys(changes).filter((name) => !name.endsWith('_kek_id'));
    if (changed.length === 0) return before;
    const row = await updateConnector(tx, id, {
      ...changes,
      updated_at: changedAt(before.updated_at, now),
    }).catch((error) => {
      // Another request took the name at the same time.
      throw isUniqueViolation(error) && changes.name !== undefined ? nameTaken(changes.name) : error;
    });
    await recordChange(tx, {
      actor: caller,
      action: 'connector.updated',
      resourceId: id,
      detail: { changed },
      isReduction: !row.enabled,
      at: now,
    });
    return row;
  });
  return await toConnector(deps, after);
}

/** Deletes a connector and its credential. Its entries in the ledger stay readable. */
export async function deleteConnector(
  deps: ConnectorAdminDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Connector> {
  const now = deps.now();
  const row = await deps.db.transaction().execute(async (tx) => {
    const before = (await lockConnector(tx, id)) ?? raise(connectorNotFound());
    assertMatch(await toConnector(deps, before));
    if (before.origin === 'environment' && !before.withdrawn) {
      throw new AppError(
        'conflict',
        'connector_of_environment',
        `The environment of the control plane defines this connector. Remove ${variableOf(before)} from it first, or disable the connector.`,
        { param: 'connector_id' },
      );
    }
    const deleted = await updateConnector(tx, id, {
      enabled: false,
      credential_ref: null,
      credential_sealed: null,
      credential_kek_id: null,
      auth: null,
      auth_sealed: null,
      auth_kek_id: null,
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
  return await toConnector(deps, row);
}

type Changes = Parameters<typeof updateConnector>[2];

/** The columns that differ from the row; throws if a rule forbids a change. */
async function permittedChanges(
  deps: ConnectorAdminDeps,
  tx: Tx,
  row: ConnectorRow,
  input: ConnectorChanges,
): Promise<Changes> {
  const changes: Changes = {};
  if (input.name !== undefined && input.name.trim() !== row.name) {
    const name = validConnectorName(input.name);
    if (await isNameTaken(tx, name)) throw nameTaken(name);
    changes.name = name;
  }
  if (input.dialect !== undefined && input.dialect !== row.dialect) changes.dialect = input.dialect;
  if (input.base_url !== undefined) {
    const baseUrl = validBaseUrl(input.base_url, deps.upstreamHosts);
    if (baseUrl !== row.base_url) changes.base_url = baseUrl;
  }
  const models = input.models && validModelPatterns(row.provider, input.models);
  if (models && !isDeepStrictEqual(models, row.models)) changes.models = models;
  const names = input.upstream_names && validUpstreamNames(row.provider, input.upstream_names);
  if (names && !isDeepStrictEqual(names, row.upstream_names)) changes.upstream_names = JSON.stringify(names);
  const headers = input.forward_headers && validForwardHeaders(input.forward_headers);
  if (headers && !isDeepStrictEqual(headers, row.forward_headers)) changes.forward_headers = headers;
  const tokens = input.tokens_per_minute === undefined ? undefined : tokensColumn(input.tokens_per_minute);
  if (tokens !== undefined && tokens !== row.tokens_per_minute) changes.tokens_per_minute = tokens;
  if (input.chat !== undefined) validChat(row.provider, input.chat);
  for (const field of PLAIN_FIELDS) {
    const value = input[field];
    if (value !== undefined && value !== row[field]) Object.assign(changes, { [field]: value });
  }
  return { ...changes, ...changedAccess(deps, row, input, changes.base_url) };
}

const tokensColumn = (tokens: number | null): bigint | null => (tokens === null ? null : BigInt(tokens));

/** Fields that are stored as they are given. */
const PLAIN_FIELDS = [
  'enabled',
  'priority',
  'weight',
  'max_parallel',
  'requests_per_minute',
  'connect_timeout_ms',
  'first_byte_timeout_ms',
  'chunk_timeout_ms',
  'on_disconnect',
  'chat',
] as const;

function assertNotFromEnvironment(row: ConnectorRow, input: ConnectorChanges): void {
  const field = ENVIRONMENT_FIELDS.find(
    (name) => input[name] !== undefined && input[name] !== row[name as 'name'],
  );
  if (field === undefined) return;
  throw new AppError(
    'conflict',
    'connector_of_environment',
    `${field} comes from the environment of the control plane. Change ${variableOf(row)} there, or create another connector.`,
    { param: field },
  );
}

/** The setting that defines a connector of the environment. */
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
    `A connector already has the name "${name}". Choose another name.`,
    { param: 'name' },
  );
}
