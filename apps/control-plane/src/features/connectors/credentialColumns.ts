import { AppError } from '@weighbridge/errors';
import type { ConnectorChanges } from './connectors.schemas.ts';
import { type ConnectorDeps, type ConnectorRow, sealContext } from './connectors.service.ts';
import { assertOneCredential, validCredential } from './connectors.ts';

/** The columns of a connector's credential: a reference to it, or the sealed credential. */
export type CredentialColumns = Pick<
  ConnectorRow,
  'credential_ref' | 'credential_sealed' | 'credential_kek_id'
>;
type CredentialDeps = Pick<ConnectorDeps, 'credentials'>;
type CredentialInput = Pick<ConnectorChanges, 'credential_ref' | 'credential'>;

/** The columns for the credential of the input. All are null if the upstream needs none. */
export function newCredential(
  { credentials }: CredentialDeps,
  id: string,
  input: CredentialInput,
): CredentialColumns {
  assertOneCredential(input);
  const none = { credential_ref: null, credential_sealed: null, credential_kek_id: null };
  if (input.credential_ref != null) {
    credentials.assertValidRef(input.credential_ref);
    return { ...none, credential_ref: input.credential_ref };
  }
  if (input.credential == null) return none;
  const secret = validCredential(input.credential);
  if (credentials.sealer.currentKekId === undefined) {
    throw new AppError(
      'validation',
      'key_encryption_key_required',
      'The control plane has no key to seal credentials with. Set WEIGHBRIDGE_KEY_ENCRYPTION_KEY (for example the output of `openssl rand -base64 32`), or give a credential_ref.',
      { param: 'credential' },
    );
  }
  const { bytes, kekId } = credentials.sealer.seal(secret, sealContext(id));
  return { ...none, credential_sealed: bytes, credential_kek_id: kekId };
}

/** The credential columns that change; none if the credential is the same. */
export function changedCredential(
  deps: CredentialDeps,
  row: ConnectorRow,
  input: CredentialInput,
): Partial<CredentialColumns> {
  assertOneCredential(input);
  const { credential_ref: ref, credential } = input;
  if (typeof ref === 'string') return ref === row.credential_ref ? {} : newCredential(deps, row.id, input);
  if (typeof credential === 'string') {
    return isSealedAlready(deps, row, validCredential(credential)) ? {} : newCredential(deps, row.id, input);
  }
  return {
    ...(ref === null && row.credential_ref !== null && { credential_ref: null }),
    ...(credential === null &&
      row.credential_sealed !== null && { credential_sealed: null, credential_kek_id: null }),
  };
}

function isSealedAlready({ credentials }: CredentialDeps, row: ConnectorRow, credential: string): boolean {
  const { credential_sealed: bytes, credential_kek_id: kekId } = row;
  if (bytes === null || kekId === null) return false;
  try {
    return credentials.sealer.open({ bytes, kekId }, sealContext(row.id)) === credential;
  } catch {
    return false;
  }
}

/** A referenced credential goes only where the deployment lets it go: throws a 422. */
export function assertRefGoesTo(
  { credentials }: CredentialDeps,
  ref: string | null | undefined,
  baseUrl: string,
  field = 'credential_ref',
): void {
  const why = ref == null ? undefined : credentials.hosts.fault(ref, baseUrl);
  if (why === undefined) return;
  throw new AppError(
    'validation',
    'credential_host_not_allowed',
    `This ${field} cannot be used with this address: ${why}. Ask who runs the control plane to add it, or give the secret itself.`,
    { param: field },
  );
}

/** A sealed credential cannot be read, so it must not be sent to another host either: throws a 422. */
export function assertCredentialStaysWithHost(
  row: ConnectorRow,
  changes: { readonly base_url?: string | undefined; readonly credential_sealed?: Buffer | null | undefined },
): void {
  const moved =
    changes.base_url !== undefined && new URL(changes.base_url).origin !== new URL(row.base_url).origin;
  if (!moved || row.credential_sealed === null || changes.credential_sealed !== undefined) return;
  throw new AppError(
    'validation',
    'credential_required',
    'The stored credential belongs to another host. Give the credential again together with the new base_url.',
    { param: 'credential' },
  );
}
