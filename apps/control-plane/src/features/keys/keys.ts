import { isPrincipalId, type LockedAttribution } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type Caller, isOperator } from '../access/caller.ts';
import { DEFAULT_SCOPES, type Scope } from '../access/scopes.ts';

/** What a caller asks for when it creates a key. */
export interface NewKey {
  readonly name: string;
  readonly kind?: 'service' | 'user';
  readonly disabled?: boolean;
  readonly expires_at?: string | null;
  readonly policy_id?: string | null;
  readonly scopes?: readonly Scope[] | null;
  readonly principal_id?: string;
  readonly attribution?: LockedAttribution;
}

/** What a caller may change of a key. Fields that are absent stay as they are. */
export interface KeyChanges {
  readonly name?: string;
  readonly disabled?: boolean;
  readonly expires_at?: string | null;
  readonly policy_id?: string | null;
  readonly attribution?: LockedAttribution;
}

const MAX_NAME = 100;
/** Control characters, and those that turn the direction of text: a name must look like what it is. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
const UNSHOWABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** The name as it is kept; a rule that it breaks is a 422. */
export function keyName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === '') throw nameInvalid('it is empty');
  if (Array.from(trimmed).length > MAX_NAME) throw nameInvalid(`it is longer than ${MAX_NAME} characters`);
  if (UNSHOWABLE.test(trimmed)) throw nameInvalid('it holds a control or bidirectional character');
  return trimmed;
}

export function expiry(text: string, now: Date): Date {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) {
    throw new AppError(
      'invalid_request',
      'invalid_request',
      'expires_at: must be a date-time such as 2030-01-31T00:00:00Z.',
      {
        param: 'expires_at',
      },
    );
  }
  if (at > now) return at;
  throw new AppError(
    'validation',
    'expires_at_in_past',
    `expires_at must be in the future; it is now ${now.toISOString()}.`,
    {
      param: 'expires_at',
    },
  );
}

/** The scopes that a new key gets: what was asked for, or else those of the four that its issuer holds. */
export function grantableScopes(caller: Caller, asked: readonly Scope[] | null | undefined): Scope[] {
  if (!asked?.length) return DEFAULT_SCOPES.filter((scope) => caller.scopes.includes(scope));
  const scopes = [...new Set(asked)];
  // `inference` grants nothing that a key does not have anyway.
  const beyond = scopes.filter((scope) => scope !== 'inference' && !caller.scopes.includes(scope));
  if (beyond.length === 0) return scopes;
  throw new AppError(
    'permission',
    'scope_escalation',
    `This key can't grant ${beyond.join(', ')}: it lacks that itself.`,
    {
      param: 'scopes',
    },
  );
}

/** Whose a new key is: the caller's own, unless an operator says otherwise. */
export function principalOf(caller: Caller, asked: string | undefined): string {
  if (asked === undefined || asked === caller.principalId) return caller.principalId;
  if (!isOperator(caller)) {
    throw new AppError(
      'permission',
      'principal_not_allowed',
      'Only an operator issues keys for another principal.',
      {
        param: 'principal_id',
      },
    );
  }
  if (isPrincipalId(asked)) return asked;
  throw new AppError(
    'validation',
    'principal_invalid',
    'principal_id must be 1 to 200 printable characters.',
    {
      param: 'principal_id',
    },
  );
}

/** Nobody gives a key a longer life than its own. */
export function checkExpiryAgainst(caller: Caller, expiresAt: Date | null): void {
  if (isOperator(caller) || caller.expiresAt === null) return;
  if (expiresAt !== null && expiresAt <= caller.expiresAt) return;
  throw new AppError(
    'permission',
    'expiry_too_late',
    `expires_at can't be later than that of your own key, ${caller.expiresAt.toISOString()}.`,
    { param: 'expires_at' },
  );
}

export function checkMaySetAttribution(caller: Caller): void {
  if (isOperator(caller)) return;
  throw new AppError('permission', 'attribution_not_allowed', "Only an operator sets a key's attribution.", {
    param: 'attribution',
  });
}

function nameInvalid(why: string): AppError {
  return new AppError('validation', 'name_invalid', `This name can't be used: ${why}.`, { param: 'name' });
}
