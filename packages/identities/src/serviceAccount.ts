import { IdentityError } from './identityError.ts';

/** The key of a service account. */
export interface ServiceAccount {
  readonly email: string;
  readonly key: string;
  readonly keyId: string;
  readonly project: string;
  /** Where tokens are issued for it. */
  readonly tokenUri: string;
}

export const GOOGLE_TOKEN_URL = 'https://oauth2.googleapis.com/token';
/** As older keys say it. */
const OLDER_TOKEN_URL = 'https://accounts.google.com/o/oauth2/token';
const PEM = /^-----BEGIN (RSA )?PRIVATE KEY-----\s[\s\S]+-----END (RSA )?PRIVATE KEY-----\s*$/;

/** Reads the JSON of a service account's key. Throws an IdentityError that says what is wrong, and repeats nothing of it. */
export function parseServiceAccount(text: string): ServiceAccount {
  const read = parsed(text);
  if (read.type !== 'service_account') {
    throw refused(
      'they are not the key of a service account. Other kinds, such as workload identity federation, belong in the file that GOOGLE_APPLICATION_CREDENTIALS of the proxy names',
    );
  }
  const { client_email: email, private_key: key, private_key_id: keyId, project_id: project } = read;
  if (typeof email !== 'string' || !/^[^\s@]+@[^\s@]+$/.test(email)) throw refused('client_email is missing');
  if (typeof key !== 'string' || !PEM.test(key)) throw refused('private_key is not a key in PEM');
  if (read.universe_domain !== undefined && read.universe_domain !== 'googleapis.com') {
    throw refused('universe_domain is not googleapis.com');
  }
  const given = read.token_uri ?? GOOGLE_TOKEN_URL;
  if (typeof given !== 'string' || !URL.canParse(given)) throw refused('token_uri is not a URL');
  return {
    email,
    key,
    keyId: typeof keyId === 'string' ? keyId : '',
    project: typeof project === 'string' ? project : '',
    tokenUri: given === OLDER_TOKEN_URL ? GOOGLE_TOKEN_URL : given,
  };
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // Its message repeats the text.
  }
  throw refused('they are not JSON');
}

function refused(why: string): IdentityError {
  return new IdentityError(`The credentials for Google Cloud cannot be used: ${why}.`, { isRefused: true });
}
