import { AppError } from '@weighbridge/errors';
import type { ConnectorAuth } from './connectorAuth.schemas.ts';
import { CREDENTIALS, LOCATION, PROJECT } from './googleAuth.ts';

type Kind = ConnectorAuth['kind'];
type Field = Exclude<keyof ConnectorAuth, 'kind'>;
type FieldsOfKind = Readonly<Partial<Record<Field, 'required' | 'optional'>>>;

/** The fields of each kind, and whether it needs them. */
const FIELDS: Readonly<Record<Kind, FieldsOfKind>> = {
  key: {},
  none: {},
  oauth: {
    token_url: 'required',
    client_id: 'required',
    client_secret: 'required',
    client_authentication: 'optional',
    scope: 'optional',
    audience: 'optional',
  },
  aws: {
    region: 'required',
    access_key_id: 'optional',
    secret_access_key: 'optional',
    session_token: 'optional',
    role_arn: 'optional',
    external_id: 'optional',
  },
  google: { project: 'optional', location: 'optional', credentials: 'optional' },
  azure: {
    tenant_id: 'optional',
    client_id: 'optional',
    client_secret: 'optional',
    scope: 'optional',
    authority_host: 'optional',
  },
};
export type SecretField = 'client_secret' | 'credentials' | 'secret_access_key' | 'session_token';
/** The fields of each kind that are secret. */
export const SECRETS: Readonly<Record<Kind, readonly SecretField[]>> = {
  key: [],
  none: [],
  oauth: ['client_secret'],
  aws: ['secret_access_key', 'session_token'],
  google: ['credentials'],
  azure: ['client_secret'],
};
/** A field, and one that it means nothing without. */
const NEEDED: readonly (readonly [Field, Field])[] = [
  ['client_secret', 'client_id'],
  ['access_key_id', 'secret_access_key'],
  ['secret_access_key', 'access_key_id'],
  ['session_token', 'access_key_id'],
  ['external_id', 'role_arn'],
];
/** Stands for a secret that was given and is stored sealed. */
export const SEALED = 'sealed';
const REFERENCE = /^(env|file):/;
/** What RFC 6749, appendix A, allows. */
const PRINTABLE = /^[\x20-\x7e]+$/;
const FORMS: Readonly<Partial<Record<Field, RegExp>>> = {
  scope: /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/,
  // An id or a domain: it becomes a part of a path.
  tenant_id: /^[A-Za-z0-9][A-Za-z0-9.-]*$/,
  region: /^[a-z]{2}(-[a-z]+){1,3}-\d{1,2}$/,
  access_key_id: /^\w{16,128}$/,
  project: PROJECT,
  location: LOCATION,
  credentials: CREDENTIALS,
  role_arn: /^arn:aws[a-z-]*:iam::\d{12}:role\/[\w+=,.@/-]{1,512}$/,
};

/** Throws a 422 for fields that its kind lacks or needs, or that can't be sent. A secret is not repeated. */
export function assertAuth(auth: ConnectorAuth): void {
  const fields = FIELDS[auth.kind];
  for (const name of Object.keys(auth) as (keyof ConnectorAuth)[]) {
    if (name === 'kind' || fields[name] !== undefined) continue;
    throw authInvalid(name, `${name} is no field of the kind ${auth.kind}`);
  }
  for (const [name, need] of Object.entries(fields) as [Field, string][]) {
    const value = auth[name];
    if (value === undefined && need === 'required') {
      throw authInvalid(name, `the kind ${auth.kind} needs ${name}`);
    }
    if (value === undefined || (FORMS[name] ?? PRINTABLE).test(value)) continue;
    throw authInvalid(name, `${name} has a form or characters that are not allowed`);
  }
  if (auth.kind === 'azure') assertAzure(auth);
  for (const [name, needed] of NEEDED) {
    if (auth[name] === undefined || auth[needed] !== undefined) continue;
    throw authInvalid(needed, `${name} means nothing without ${needed}`);
  }
}

/** A secret is an application's, which is in a tenant. A scope is a resource's: anything else gets no token for an application. */
function assertAzure({ client_secret, tenant_id, scope }: ConnectorAuth): void {
  if (client_secret !== undefined && tenant_id === undefined) {
    throw authInvalid('tenant_id', 'client_secret means nothing without tenant_id');
  }
  if (scope === undefined || /^\S+\/\.default$/.test(scope)) return;
  throw authInvalid('scope', 'scope is one resource, such as https://cognitiveservices.azure.com/.default');
}

export function authInvalid(field: Field, why: string): AppError {
  return new AppError('validation', 'auth_invalid', `This auth cannot be used: ${why}.`, {
    param: `auth.${field}`,
  });
}

/** The secret is in the environment or in a file of the control plane. */
export function isReference(secret: string): boolean {
  return REFERENCE.test(secret);
}

/** The public cloud's. */
const AZURE_AUTHORITY = 'https://login.microsoftonline.com';

/** Where the secrets go, and what they buy. */
export function addressesOf({ kind, token_url, authority_host }: ConnectorAuth, baseUrl: string): string[] {
  const issuer = kind === 'azure' ? (authority_host ?? AZURE_AUTHORITY) : token_url;
  return issuer === undefined ? [baseUrl] : [issuer, baseUrl];
}
