import { isDeepStrictEqual } from 'node:util';
import { AppError } from '@weighbridge/errors';
import type { ConnectorAuth } from './connectorAuth.schemas.ts';
import {
  addressesOf,
  assertAuth,
  authInvalid,
  isReference,
  SEALED,
  SECRETS,
  type SecretField,
} from './connectorAuth.ts';
import type { ConnectorChanges } from './connectors.schemas.ts';
import {
  authSealContext,
  type ConnectorDeps,
  type ConnectorRow,
  openedSecrets,
} from './connectors.service.ts';
import {
  assertCredentialStaysWithHost,
  assertRefGoesTo,
  type CredentialColumns,
  changedCredential,
  newCredential,
} from './credentialColumns.ts';
import { serviceAccountFault } from './googleAuth.ts';
import { ownIdentityFault } from './ownIdentity.ts';
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
  assertCredentialFits(auth, input, false);
  if (auth === undefined || !isComputed(auth)) {
    const credential = newCredential(deps, id, input);
    assertRefGoesTo(deps, credential.credential_ref, baseUrl);
    return { ...credential, ...NO_AUTH };
  }
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
  const wanted = auth ?? (row.auth as ConnectorAuth | null) ?? undefined;
  const baseUrl = newBaseUrl ?? row.base_url;
  if (wanted && isComputed(wanted)) {
    assertCredentialFits(wanted, input, false);
    return differing(row, { ...NO_CREDENTIAL, ...authColumns(deps, row.id, wanted, baseUrl, row) });
  }
  const hasKey = row.credential_ref !== null || row.credential_sealed !== null;
  assertCredentialFits(auth, input, hasKey);
  const credential =
    wanted?.kind === 'none' ? differing(row, NO_CREDENTIAL) : changedCredential(deps, row, input);
  assertCredentialStaysWithHost(row, { base_url: newBaseUrl, ...credential });
  if (newBaseUrl !== undefined || credential.credential_ref !== undefined) {
    const { credential_ref: ref = row.credential_ref } = credential;
    assertRefGoesTo(deps, ref, baseUrl);
  }
  return { ...credential, ...(auth && differing(row, NO_AUTH)) };
}

function isComputed({ kind }: ConnectorAuth): boolean {
  return kind !== 'key' && kind !== 'none';
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
  const addresses = addressesOf(auth, baseUrl);
  for (const field of ['token_url', 'authority_host'] as const) {
    const url = auth[field];
    const why = url === undefined ? undefined : baseUrlFault(url, deps.upstreamHosts);
    if (why !== undefined) throw authInvalid(field, `of ${field}: ${why}`);
  }
  const own = ownIdentityFault(auth, baseUrl, deps.upstreamHosts);
  if (own !== undefined) {
    const code = own.field === 'base_url' ? 'base_url_invalid' : 'auth_invalid';
    const message = `This ${own.field} cannot be used: ${own.why}.`;
    throw new AppError('validation', code, message, { param: own.field });
  }
  const stored = before && openedSecrets(deps.credentials, before);
  const secrets: Partial<Record<SecretField, string>> = {};
  const shown = { ...auth };
  for (const field of SECRETS[auth.kind]) {
    const given = auth[field];
    if (given === undefined) continue;
    if (isReference(given)) {
      const param = `auth.${field}`;
      deps.credentials.assertValidRef(given, param);
      // What the secret buys goes there.
      for (const url of addresses) assertRefGoesTo(deps, given, url, param);
      continue;
    }
    secrets[field] = given === SEALED ? keptSecret(field, before, stored, addresses) : given;
    const wrong = field === 'credentials' && serviceAccountFault(secrets[field], deps.upstreamHosts);
    if (wrong) throw authInvalid(field, wrong);
    shown[field] = SEALED;
  }
  if (Object.keys(secrets).length === 0) return { ...NO_AUTH, auth: shown };
  if (before && isDeepStrictEqual(secrets, stored)) {
    const { auth_sealed, auth_kek_id } = before;
    return { auth: shown, auth_sealed, auth_kek_id };
  }
  return { auth: shown, ...sealedSecrets(deps, id, secrets) };
}

function sealedSecrets(
  { credentials: { sealer } }: ConnectorDeps,
  id: string,
  secrets: Partial<Record<SecretField, string>>,
): Pick<AccessColumns, 'auth_sealed' | 'auth_kek_id'> {
  if (sealer.currentKekId === undefined) {
    throw new AppError(
      'validation',
      'key_encryption_key_required',
      'The control plane has no key to seal secrets with. Set WEIGHBRIDGE_KEY_ENCRYPTION_KEY (for example the output of `openssl rand -base64 32`), or give a reference.',
      { param: `auth.${Object.keys(secrets)[0]}` },
    );
  }
  const { bytes, kekId } = sealer.seal(JSON.stringify(secrets), authSealContext(id));
  return { auth_sealed: bytes, auth_kek_id: kekId };
}

/** The sealed secret as it is stored. It must not be sent to another host, nor buy tokens for another: throws a 422. */
function keptSecret(
  field: SecretField,
  before: ConnectorRow | undefined,
  stored: Partial<Record<SecretField, string>> | undefined,
  addresses: readonly string[],
): string {
  const kept = stored?.[field];
  if (before === undefined || kept === undefined) {
    throw authInvalid(field, `no secret is stored: "${SEALED}" keeps the one that is`);
  }
  const known = addressesOf(before.auth as ConnectorAuth, before.base_url);
  const originsOf = (urls: readonly string[]) => urls.map((url) => new URL(url).origin);
  if (isDeepStrictEqual(originsOf(known), originsOf(addresses))) return kept;
  throw new AppError(
    'validation',
    'credential_required',
    `The stored secret belongs to another host. Give ${field} again together with the new address.`,
    { param: `auth.${field}` },
  );
}
