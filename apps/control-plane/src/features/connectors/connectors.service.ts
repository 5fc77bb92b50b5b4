import type { Database } from '@weighbridge/database';
import { isId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { AwsIdentity, AzureIdentity, ClientCredentials, GoogleIdentity } from '@weighbridge/identities';
import type { ConnectorAuth } from './connectorAuth.schemas.ts';
import { addressesOf, isReference, SECRETS, type SecretField } from './connectorAuth.ts';
import {
  type ConnectorRow,
  findConnector,
  findConnectorsOf,
  findEnabledConnectors,
} from './connectors.repository.ts';
import type { Connector } from './connectors.schemas.ts';
import { type Credential, type Credentials, isJsonText } from './credentials.ts';
import { mayIssuePrivately, serviceAccountFault } from './googleAuth.ts';
import { ownIdentityFault } from './ownIdentity.ts';
import { vendorHostOf } from './providers.ts';
import { baseUrlFault, type UpstreamHosts } from './upstreamHosts.ts';

export type { ConnectorRow };

export interface ConnectorDeps {
  readonly db: Database;
  readonly credentials: Credentials;
  readonly upstreamHosts: UpstreamHosts;
}

/** An OAuth client, and whether its token URL may lead to a private address; or an identity at a cloud. */
export type Identity =
  | (ClientCredentials & { readonly kind: 'oauth'; readonly allowPrivateAddress: boolean })
  | (AzureIdentity & { readonly kind: 'azure'; readonly allowPrivateAddress: boolean })
  | (AwsIdentity & { readonly kind: 'aws' })
  | (GoogleIdentity & {
      readonly kind: 'google';
      readonly location: string;
      readonly allowPrivateAddress: boolean;
    });

/** What a connector is called with: a credential, empty if it needs none, or what tokens are got with. */
type Access =
  | { readonly value: string; readonly identity: Identity | undefined }
  | { readonly unusable: string };

/** An enabled connector whose credential could be read. */
export type UsableConnector = ConnectorRow & {
  /** Empty if the upstream needs none. */
  readonly credential: string;
  /** How proxies get what they call the upstream with, if that is computed. */
  readonly identity: Identity | undefined;
  readonly allowPrivateAddress: boolean;
};

export async function usableConnectors(deps: ConnectorDeps): Promise<UsableConnector[]> {
  const rows = await findEnabledConnectors(deps.db);
  const all = await Promise.all(
    rows.map(async (row) => {
      const credential = await credentialOf(deps, row);
      if ('unusable' in credential) return [];
      const { value, identity } = credential;
      return [{ ...row, credential: value, identity, allowPrivateAddress: mayBePrivate(deps, row) }];
    }),
  );
  return all.flat();
}

/** The enabled connectors, each with the reason why it is unusable; undefined if it is usable. */
export async function enabledConnectors(
  deps: ConnectorDeps,
): Promise<{ readonly row: ConnectorRow; readonly unusable: string | undefined }[]> {
  const rows = await findEnabledConnectors(deps.db);
  return await Promise.all(
    rows.map(async (row) => {
      const credential = await credentialOf(deps, row);
      return { row, unusable: 'unusable' in credential ? credential.unusable : undefined };
    }),
  );
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

/** A connector's secrets, or the reason why it is unusable. Whether it is enabled does not matter. */
export async function credentialOf(deps: ConnectorDeps, row: ConnectorRow): Promise<Access> {
  const { credentials, upstreamHosts } = deps;
  if (row.withdrawn) return { unusable: 'The environment of the control plane no longer defines it.' };
  // The deployment chose the URLs of its environment. An operator's URL may have been allowed by earlier settings.
  const fault = row.origin === 'environment' ? undefined : baseUrlFault(row.base_url, upstreamHosts);
  if (fault !== undefined) return { unusable: `Its base_url cannot be used: ${fault}.` };
  if (row.auth !== null) return await identityOf(deps, row, row.auth as ConnectorAuth);
  if (row.credential_ref !== null) {
    const bound =
      row.origin === 'environment' ? undefined : credentials.hosts.fault(row.credential_ref, row.base_url);
    return bound === undefined
      ? withoutIdentity(await credentials.read(row.credential_ref))
      : { unusable: `Its credential_ref cannot be used: ${bound}.` };
  }
  if (row.credential_sealed === null || row.credential_kek_id === null) {
    const vendor = vendorHostOf(row.base_url);
    return vendor === undefined
      ? { value: '', identity: undefined }
      : { unusable: `It has no credential, which ${vendor} requires. Set its credential or credential_ref.` };
  }
  return withoutIdentity(
    unseal(credentials, sealContext(row.id), row.credential_sealed, row.credential_kek_id),
  );
}

function withoutIdentity(credential: Credential): Access {
  return 'unusable' in credential ? credential : { value: credential.value, identity: undefined };
}

/** What proxies get tokens with, or sign with. */
async function identityOf(
  { credentials, upstreamHosts }: ConnectorDeps,
  row: ConnectorRow,
  auth: ConnectorAuth,
): Promise<Access> {
  for (const field of ['token_url', 'authority_host'] as const) {
    const url = auth[field];
    const fault = url === undefined ? undefined : baseUrlFault(url, upstreamHosts);
    if (fault !== undefined) return { unusable: `Its ${field} cannot be used: ${fault}.` };
  }
  const own = ownIdentityFault(auth, row.base_url, upstreamHosts);
  if (own !== undefined) return { unusable: `Its ${own.field} cannot be used: ${own.why}.` };
  const addresses = addressesOf(auth, row.base_url);
  const secrets: Partial<Record<SecretField, string>> = {};
  for (const field of SECRETS[auth.kind]) {
    const given = auth[field];
    if (given === undefined) continue;
    const secret = isReference(given)
      ? await readBound(credentials, given, addresses, field)
      : sealedSecret(credentials, row, field);
    if ('unusable' in secret) return secret;
    const wrong = field === 'credentials' ? serviceAccountFault(secret.value, upstreamHosts) : undefined;
    if (wrong !== undefined) return { unusable: `${wrong}.` };
    secrets[field] = secret.value;
  }
  return { value: '', identity: identityWith(auth, secrets, upstreamHosts) };
}

function identityWith(
  auth: ConnectorAuth,
  secrets: Partial<Record<SecretField, string>>,
  upstreamHosts: UpstreamHosts,
): Identity {
  if (auth.kind === 'aws') {
    const { region = '', access_key_id = '', role_arn = '', external_id = '' } = auth;
    const { secret_access_key = '', session_token = '' } = secrets;
    return {
      kind: 'aws',
      region,
      accessKeyId: access_key_id,
      secretAccessKey: secret_access_key,
      sessionToken: session_token,
      roleArn: role_arn,
      externalId: external_id,
    };
  }
  if (auth.kind === 'google') {
    const { project = '', location = 'global' } = auth;
    const { credentials = '' } = secrets;
    const allowPrivateAddress = mayIssuePrivately(credentials, upstreamHosts);
    return { kind: 'google', project, location, credentials, allowPrivateAddress };
  }
  if (auth.kind === 'azure') return azureIdentity(auth, secrets, upstreamHosts);
  const { token_url: tokenUrl = '', client_id: clientId = '', scope = '', audience = '' } = auth;
  return {
    kind: 'oauth',
    tokenUrl,
    clientId,
    clientSecret: secrets.client_secret ?? '',
    scope,
    audience,
    clientAuthentication: auth.client_authentication ?? 'post',
    allowPrivateAddress: upstreamHosts.allows(new URL(tokenUrl)),
  };
}

function azureIdentity(
  { tenant_id = '', client_id = '', scope = '', authority_host = '' }: ConnectorAuth,
  { client_secret = '' }: Partial<Record<SecretField, string>>,
  upstreamHosts: UpstreamHosts,
): Identity {
  return {
    kind: 'azure',
    tenantId: tenant_id,
    clientId: client_id,
    clientSecret: client_secret,
    scope,
    authorityHost: authority_host,
    allowPrivateAddress: authority_host !== '' && upstreamHosts.allows(new URL(authority_host)),
  };
}

/** The secret of a reference, if the deployment lets it, and what it buys, go to these addresses. */
async function readBound(
  credentials: Credentials,
  ref: string,
  urls: readonly string[],
  field: SecretField,
): Promise<Credential> {
  const bound = urls.map((url) => credentials.hosts.fault(ref, url)).find((why) => why !== undefined);
  return bound === undefined
    ? await credentials.read(ref, field === 'credentials' ? isJsonText : undefined)
    : { unusable: `A secret of its auth cannot be used: ${bound}.` };
}

function sealedSecret(credentials: Credentials, row: ConnectorRow, field: SecretField): Credential {
  const opened = unseal(credentials, authSealContext(row.id), row.auth_sealed, row.auth_kek_id);
  if ('unusable' in opened) return opened;
  const value = secretsIn(opened.value)[field];
  return value === undefined ? { unusable: `Its ${field} is missing. Set it again.` } : { value };
}

function secretsIn(text: string): Partial<Record<SecretField, string>> {
  try {
    return JSON.parse(text) as Partial<Record<SecretField, string>>;
  } catch {
    // Sealed by a version that was never released.
    return {};
  }
}

/** The sealed secrets of a connector's auth; undefined if there are none or they can't be opened. */
export function openedSecrets(
  credentials: Credentials,
  row: ConnectorRow,
): Partial<Record<SecretField, string>> | undefined {
  const opened = unseal(credentials, authSealContext(row.id), row.auth_sealed, row.auth_kek_id);
  return 'unusable' in opened ? undefined : secretsIn(opened.value);
}

/** The additional data that a credential is sealed with, so that it opens for its own row only. */
export function sealContext(connectorId: string): string {
  return `connectors/${connectorId}`;
}

/** As `sealContext`, of the secrets of its auth. */
export function authSealContext(connectorId: string): string {
  return `connectors/${connectorId}/auth`;
}

/** Whether the host may resolve to a private address. */
export function mayBePrivate({ upstreamHosts }: ConnectorDeps, row: ConnectorRow): boolean {
  return row.origin === 'environment' || upstreamHosts.allows(new URL(row.base_url));
}

function unseal(
  { sealer }: Credentials,
  context: string,
  bytes: Buffer | null,
  kekId: string | null,
): Credential {
  if (bytes === null || kekId === null) return { unusable: 'Its secret is missing. Set it again.' };
  try {
    const value = sealer.open({ bytes, kekId }, context);
    return value === undefined
      ? {
          unusable: `Its credential is sealed under the key-encryption key ${kekId}, which the control plane does not have.`,
        }
      : { value };
  } catch {
    return { unusable: 'Its sealed credential was modified outside the service. Set it again.' };
  }
}

/** The references to credentials that a connector has. */
function referencesOf({ auth, credential_ref }: ConnectorRow): string[] {
  return [credential_ref, ...secretsOf(auth as ConnectorAuth | null)].filter(
    (ref) => ref !== null && (auth === null || isReference(ref)),
  ) as string[];
}

/** Whether the deployment limits where the referenced credential may go; null without a reference. */
function isBound({ credentials }: ConnectorDeps, row: ConnectorRow): boolean | null {
  const refs = referencesOf(row);
  if (refs.length === 0) return null;
  return row.origin === 'environment' || refs.every((ref) => credentials.hosts.isBound(ref));
}

/** The hosts that the deployment lets every referenced credential go to; null: it has no reference, or none is limited. */
function allowedHosts({ credentials }: ConnectorDeps, row: ConnectorRow): string[] | null {
  const refs = referencesOf(row);
  // The deployment itself chose both.
  if (row.origin === 'environment') return refs.length === 0 ? null : [new URL(row.base_url).host];
  const [first, ...others] = refs.flatMap((ref) => {
    const hosts = credentials.hosts.hostsOf(ref);
    return hosts ? [hosts] : [];
  });
  return first ? first.filter((host) => others.every((hosts) => hosts.includes(host))) : null;
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
    auth: (row.auth as ConnectorAuth | null) ?? { kind: hasKey(row) ? 'key' : 'none' },
    credential_ref: row.credential_ref,
    credential_sealed: row.credential_sealed !== null,
    credential_bound: isBound(deps, row),
    credential_hosts: allowedHosts(deps, row),
    usable: reason === null,
    unusable_reason: reason,
    // What an operator chose stays in the row, for when the environment defines it again.
    enabled: row.enabled && !row.withdrawn,
    priority: row.priority,
    weight: row.weight,
    max_parallel: row.max_parallel,
    requests_per_minute: row.requests_per_minute,
    tokens_per_minute: row.tokens_per_minute === null ? null : Number(row.tokens_per_minute),
    connect_timeout_ms: row.connect_timeout_ms,
    first_byte_timeout_ms: row.first_byte_timeout_ms,
    chunk_timeout_ms: row.chunk_timeout_ms,
    on_disconnect: row.on_disconnect as 'cancel' | 'drain' | null,
    chat: row.chat,
    forward_headers: row.forward_headers,
    models: row.models,
    upstream_names: row.upstream_names as Record<string, string>,
    origin: row.origin,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function hasKey({ credential_ref, credential_sealed }: ConnectorRow): boolean {
  return credential_ref !== null || credential_sealed !== null;
}

function secretsOf(auth: ConnectorAuth | null): string[] {
  return auth ? SECRETS[auth.kind].flatMap((field) => auth[field] ?? []) : [];
}
