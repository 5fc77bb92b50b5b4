import { AppError } from '@weighbridge/errors';

const MAX_TEXT = 300;
/** Errors of an authorization response after which another try may succeed. */
const PASSING = new Set(['temporarily_unavailable', 'server_error']);
/** Errors of a token response that only who set up the client can mend. */
const OF_SETUP = new Set(['invalid_client', 'unauthorized_client', 'invalid_scope', 'invalid_request']);

/** What a failure of `authorizationCodeGrant` means to the person who signs in. */
export function refusedSignIn(failure: unknown): AppError {
  const { name, error, error_description: description } = failure as Readonly<Record<string, unknown>>;
  if (name === 'AuthorizationResponseError') return refusedByIssuer(String(error), description);
  if (name === 'ResponseBodyError') return refusedCode(String(error));
  const { code } = failure as { readonly code?: unknown };
  if (typeof code === 'string' && /CLAIM|INVALID_RESPONSE|TIMESTAMP/.test(code)) {
    const message = "The identity provider's response does not match this sign-in. Sign in again.";
    return new AppError('authentication', 'sign_in_refused', message);
  }
  return unansweredSignIn();
}

/** The issuer sent the person back with an error. */
function refusedByIssuer(error: string, description: unknown): AppError {
  const said = typeof description === 'string' && description !== '' ? ` It says: ${shown(description)}` : '';
  if (PASSING.has(error)) {
    const message = `Your identity provider could not sign you in (${shown(error)}). Try again.${said}`;
    return new AppError('upstream', 'sign_in_failed', message, { isLogged: false });
  }
  const next =
    error === 'access_denied'
      ? 'Sign in again, or ask whoever runs it to give you access.'
      : 'Ask an operator to check the set-up of this sign-in.';
  const message = `Your identity provider did not sign you in (${shown(error)}). ${next}${said}`;
  return new AppError('permission', 'sign_in_refused', message);
}

/** The issuer did not take the code. Its description is for whoever set up the client, not for the person. */
function refusedCode(error: string): AppError {
  const next = OF_SETUP.has(error)
    ? 'Ask an operator to check OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and the redirect URI.'
    : 'Sign in again.';
  const message = `Your identity provider refused to end this sign-in (${shown(error)}). ${next}`;
  return new AppError('authentication', 'sign_in_refused', message);
}

export function unansweredSignIn(): AppError {
  const message =
    'Your identity provider gave no answer that could be read. Try again; if that fails again, sign in with a key.';
  return new AppError('upstream', 'sign_in_failed', message, { isLogged: false });
}

export function tooManySignIns(): AppError {
  const message = 'Too many people sign in at this moment. Sign in again in a few seconds.';
  return new AppError('unavailable', 'sign_in_busy', message, { isLogged: false });
}

/** Text of someone else, without characters that change how the rest reads. */
function shown(text: string): string {
  const plain = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ').trim();
  return plain.length > MAX_TEXT ? `${plain.slice(0, MAX_TEXT)}…` : plain;
}
