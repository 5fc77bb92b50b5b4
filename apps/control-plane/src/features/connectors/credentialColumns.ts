import { AppError } from '@weighbridge/errors';
import { type ConnectorChanges, checkOneCredential, credentialToSeal } from './connectorSettings.ts';
import { type ConnectorDeps, type ConnectorRow, placeOf } from './connectors.service.ts';

/** What of a connector's row is its credential: where it is, or what it is, sealed. */
type CredentialColumns = Pick<ConnectorRow, 'credential_ref' | 'credential_sealed' | 'credential_kek_id'>;
type CredentialDeps = Pick<ConnectorDeps, 'credentials'>;
type CredentialInput = Pick<ConnectorChanges, 'credential_ref' | 'credential'>;

/** The columns of the credential that a connector is given; without one, the upstream wants none. */
export function newCredential(
  { credentials }: CredentialDeps,
  id: string,
  input: CredentialInput,
): CredentialColumns {
  checkOneCredential(input);
  const none = { credential_ref: null, credential_sealed: null, credential_kek_id: null };
  if (input.credential_ref != null) {
    credentials.checkRef(input.credential_ref);
    return { ...none, credential_ref: input.credential_ref };
  }
  if (input.credential == null) return none;
  const secret = credentialToSeal(input.credential);
  if (credentials.sealer.currentKekId === undefined) {
    throw new AppError(
      'validation',
      'key_encryption_key_required',
      'This service keeps credentials only sealed, and has no key to seal them: set WEIGHBRIDGE_KEY_ENCRYPTION_KEY (what `openssl rand -base64 32` prints) for the control plane, or give a credential_ref.',
      { param: 'credential' },
    );
  }
  const { bytes, kekId } = credentials.sealer.seal(secret, placeOf(id));
  return { ...none, credential_sealed: bytes, credential_kek_id: kekId };
}

/** The columns of a credential that changed; none where it is the same as before. */
export function changedCredential(
  deps: CredentialDeps,
  row: ConnectorRow,
  input: CredentialInput,
): Partial<CredentialColumns> {
  checkOneCredential(input);
  const { credential_ref: ref, credential } = input;
  if (typeof ref === 'string') return ref === row.credential_ref ? {} : newCredential(deps, row.id, input);
  if (typeof credential === 'string') {
    return isSealedAlready(deps, row, credentialToSeal(credential)) ? {} : newCredential(deps, row.id, input);
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
    return credentials.sealer.open({ bytes, kekId }, placeOf(row.id)) === credential;
  } catch {
    return false;
  }
}

/** A sealed credential can't be read; nor may it be sent to a place of somebody's choice instead. */
export function checkCredentialStaysHome(
  row: ConnectorRow,
  changes: { readonly base_url?: string | undefined; readonly credential_sealed?: Buffer | null | undefined },
): void {
  const moved =
    changes.base_url !== undefined && new URL(changes.base_url).origin !== new URL(row.base_url).origin;
  if (!moved || row.credential_sealed === null || changes.credential_sealed !== undefined) return;
  throw new AppError(
    'validation',
    'credential_required',
    'The credential was given for another host: give it again together with the new base_url.',
    { param: 'credential' },
  );
}
