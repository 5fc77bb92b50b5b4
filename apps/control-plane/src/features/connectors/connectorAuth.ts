import { AppError } from '@weighbridge/errors';
import type { ConnectorAuth } from './connectorAuth.schemas.ts';

type Field = Exclude<keyof ConnectorAuth, 'kind'>;

/** The fields of each kind, and whether it needs them. */
const FIELDS: Readonly<
  Record<ConnectorAuth['kind'], Readonly<Partial<Record<Field, 'required' | 'optional'>>>>
> = {
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
};
/** Stands for a secret that was given and is stored sealed. */
export const SEALED = 'sealed';
const REFERENCE = /^(env|file):/;
/** What RFC 6749, appendix A, allows. */
const PRINTABLE = /^[\x20-\x7e]+$/;
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/;

/** Throws a 422 for fields that its kind lacks or needs, or that can't be sent. A secret is not repeated. */
export function assertAuth(auth: ConnectorAuth): void {
  const fields = FIELDS[auth.kind];
  for (const name of Object.keys(auth) as (keyof ConnectorAuth)[]) {
    if (name === 'kind' || fields[name] !== undefined) continue;
    throw authInvalid(name, `${name} is no field of the kind ${auth.kind}`);
  }
  for (const [name, need] of Object.entries(fields) as [Field, string][]) {
    const value = auth[name];
    if (value === undefined) {
      if (need === 'required') throw authInvalid(name, `the kind ${auth.kind} needs ${name}`);
      continue;
    }
    const isValid = name === 'scope' ? SCOPE.test(value) : PRINTABLE.test(value);
    if (!isValid) throw authInvalid(name, `${name} has characters that cannot be sent`);
  }
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
