import { isDeepStrictEqual } from 'node:util';
import { AppError } from '@weighbridge/errors';
import type { ConnectorAuth } from './connectorAuth.schemas.ts';
import { assertAuth, authInvalid, isReference, SEALED } from './connectorAuth.ts';
import type { ConnectorChanges } from './connectors.schemas.ts';
import { authSealContext, type ConnectorDeps, type ConnectorRow } from './connectors.service.ts';
import {
  assertCredentialStaysWithHost,
  assertRefGoesTo,
  type CredentialColumns,
  changedCredential,
  newCredential,
} from './credentialColumns.ts';
import { baseUrlFault } from './upstreamHosts.ts';

/** The columns of how a connector is authorised: by a credential, or by what `auth` says. */
type AccessColumns = CredentialColumns & Pick<ConnectorRow, 'auth' | 'auth_sealed' | 'auth_kek_id'>;
type AccessInput = Pick<ConnectorChanges, 'auth' | 'credential' | 'credential_ref'>;

const NO_AUTH = { auth: null, auth_sealed: null, auth_kek_id: null };
const NO_CREDENTIAL = { credential_ref: null, credential_sealed: null, credential_kek_id: null };

/** The columns of a new connector. */
export function newAccess(
  deps: ConnectorDeps,
  id: string,
  input: AccessInput,
  baseUrl: string,
): AccessColumns {
  const { auth } = input;
  if (auth) assertAuth(auth);
  if (auth === undefined || auth.kind === 'key' || auth.kind === 'none') {
    assertCredentialFits(auth, input, false);
    const credential = newCredential(deps, id, input);
    assertRefGoesTo(deps, credential.credential_ref, baseUrl);
    return { ...credential, ...NO_AUTH };
  }
  assertCredentialFits(auth, input, false);
  return { ...NO_CREDENTIAL, ...authColumns(deps, id, auth, baseUrl, undefined) };
}

/** The columns that change, for a connector that may get another base URL too; throws if a rule forbids it. */
export function changedAccess(
  deps: ConnectorDeps,
  row: ConnectorRow,
  input: AccessInput,
  newBaseUrl: string | undefined,
): Partial<AccessColumns> {
  const { auth } = input;
  if (auth) assertAuth(auth);
  const kind = auth?.kind ?? (row.auth === null ? undefined : 'oauth');
  const baseUrl = newBaseUrl ?? row.base_url;
  if (kind === 'oauth') {
    const wanted = auth ?? (row.auth as ConnectorAuth);
    assertCredentialFits(wanted, input, false);
    return differing(row, { ...NO_CREDENTIAL, ...authColumns(deps, row.id, wanted, baseUrl, row) });
  }
  const hasKey = row.credential_ref !== null || row.credential_sealed !== null;
  assertCredentialFits(auth, input, hasKey);
  const credential = kind === 'none' ? differing(row, NO_CREDENTIAL) : changedCredential(deps, row, input);
  assertCredentialStaysWithHost(row, { base_url: newBaseUrl, ...credential });
  if (newBaseUrl !== undefined || credential.credential_ref !== undefined) {
    const { credential_ref: ref = row.credential_ref } = credential;
    assertRefGoesTo(deps, ref, baseUrl);
  }
  return { ...credential, ...(auth && differing(row, NO_AUTH)) };
}

function differing(row: ConnectorRow, columns: Partial<AccessColumns>): Partial<AccessColumns> {
  const entries = Object.entries(columns).filter(
    ([name, value]) => !isDeepStrictEqual(value, row[name as keyof AccessColumns]),
  );
  return Object.fromEntries(entries);
}

/** Only the kind `key` has a credential. */
function assertCredentialFits(
  auth: ConnectorAuth | undefined,
  { credential, credential_ref }: AccessInput,
  hasKey: boolean,
): void {
  const isGiven = credential != null || credential_ref != null;
  if (auth === undefined) return;
  if (auth.kind === 'key') {
    if (isGiven || (hasKey && credential === undefined && credential_ref === undefined)) return;
    throw new AppError(
      'validation',
      'credential_required',
      'Give a credential or a credential_ref: the auth is of the kind key.',
      { param: 'credential' },
    );
  }
  if (!isGiven) return;
  throw new AppError(
    'validation',
    'credential_ambiguous',
    `Give no credential: the auth is of the kind ${auth.kind}. To use one, give {"kind": "key"} as auth with it.`,
    { param: credential == null ? 'credential_ref' : 'credential' },
  );
}

function authColumns(
  deps: ConnectorDeps,
  id: string,
  auth: ConnectorAuth,
  baseUrl: string,
  before: ConnectorRow | undefined,
): Pick<AccessColumns, 'auth' | 'auth_sealed' | 'auth_kek_id'> {
  const { token_url: tokenUrl = '', client_secret: secret = '' } = auth;
  const why = baseUrlFault(tokenUrl, deps.upstreamHosts);
  if (why !== undefined) throw authInvalid('token_url', `of token_url: ${why}`);
  if (isReference(secret)) {
    deps.credentials.assertValidRef(secret, 'auth.client_secret');
    // The token that the secret buys goes there.
    for (const url of [tokenUrl, baseUrl]) assertRefGoesTo(deps, secret, url, 'auth.client_secret');
    return { ...NO_AUTH, auth: { ...auth } };
  }
  const stored = before && openedSecret(deps, before);
  if (secret === SEALED || secret === stored) {
    const kept = keptSecret(before, auth, baseUrl, secret === SEALED);
    if (kept) return { auth: { ...auth, client_secret: SEALED }, ...kept };
  }
  const { sealer } = deps.credentials;
  if (sealer.currentKekId === undefined) {
    throw new AppError(
      'validation',
      'key_encryption_key_required',
      'The control plane has no key to seal secrets with. Set WEIGHBRIDGE_KEY_ENCRYPTION_KEY (for example the output of `openssl rand -base64 32`), or give a reference.',
      { param: 'auth.client_secret' },
    );
  }
  const { bytes, kekId } = sealer.seal(secret, authSealContext(id));
  return { auth: { ...auth, client_secret: SEALED }, auth_sealed: bytes, auth_kek_id: kekId };
}

/** The sealed secret as it is stored. It must not be sent to another host, nor buy tokens for another: throws a 422. */
function keptSecret(
  before: ConnectorRow | undefined,
  auth: ConnectorAuth,
  baseUrl: string,
  isUnread: boolean,
): Pick<AccessColumns, 'auth_sealed' | 'auth_kek_id'> | undefined {
  if (before?.auth_sealed == null) {
    throw authInvalid('client_secret', `no secret is stored: "${SEALED}" keeps the one that is`);
  }
  const { token_url: tokenUrl = '' } = before.auth as ConnectorAuth;
  const isSameHost =
    new URL(tokenUrl).origin === new URL(auth.token_url ?? '').origin &&
    new URL(before.base_url).origin === new URL(baseUrl).origin;
  if (isSameHost) return { auth_sealed: before.auth_sealed, auth_kek_id: before.auth_kek_id };
  if (!isUnread) return undefined;
  throw new AppError(
    'validation',
    'credential_required',
    'The stored secret belongs to another host. Give client_secret again together with the new address.',
    { param: 'auth.client_secret' },
  );
}

function openedSecret({ credentials }: ConnectorDeps, row: ConnectorRow): string | undefined {
  const { auth_sealed: bytes, auth_kek_id: kekId } = row;
  if (bytes === null || kekId === null) return undefined;
  try {
    return credentials.sealer.open({ bytes, kekId }, authSealContext(row.id));
  } catch {
    return undefined;
  }
}
