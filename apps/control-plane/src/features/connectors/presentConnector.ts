import { type ConnectorDeps, type ConnectorRow, credentialOf } from './connectors.service.ts';

/** A connector as the API shows it: where its credential is, never what it is. */
export interface PresentedConnector {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  readonly dialect: 'openai' | 'anthropic';
  readonly base_url: string;
  readonly credential_ref: string | null;
  readonly credential_sealed: boolean;
  readonly usable: boolean;
  readonly unusable_reason: string | null;
  readonly enabled: boolean;
  readonly priority: number;
  readonly weight: number;
  readonly max_parallel: number | null;
  readonly connect_timeout_ms: number | null;
  readonly first_byte_timeout_ms: number | null;
  readonly chunk_timeout_ms: number | null;
  readonly models: string[];
  readonly upstream_names: Record<string, string>;
  readonly origin: 'environment' | 'operator';
  readonly created_at: string;
  readonly updated_at: string;
}

export async function presentConnector(deps: ConnectorDeps, row: ConnectorRow): Promise<PresentedConnector> {
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
    usable: reason === null,
    unusable_reason: reason,
    enabled: row.enabled,
    priority: row.priority,
    weight: row.weight,
    max_parallel: row.max_parallel,
    connect_timeout_ms: row.connect_timeout_ms,
    first_byte_timeout_ms: row.first_byte_timeout_ms,
    chunk_timeout_ms: row.chunk_timeout_ms,
    models: row.models,
    upstream_names: row.upstream_names as Record<string, string>,
    origin: row.origin,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
