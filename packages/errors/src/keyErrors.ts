import { AppError } from './appError.ts';

/** `authorization`: the header, if the request has one that carries no token. */
export function missingKey(authorization?: string): AppError {
  const message = authorization?.startsWith('sk-svc-')
    ? 'The header Authorization lacks "Bearer " before the API key. Send "Authorization: Bearer sk-svc-…".'
    : 'The request has no API key. Send it in the header "Authorization: Bearer sk-svc-…".';
  return new AppError('authentication', 'missing_api_key', message);
}

export function unknownKey(): AppError {
  return new AppError(
    'authentication',
    'invalid_api_key',
    'The API key is unknown. Check it for missing characters, or ask an operator whether it still exists.',
  );
}

/** Of a key that is disabled or revoked, or whose principal is deactivated: proxies know no more than that. */
export function disabledKey(): AppError {
  return new AppError(
    'authentication',
    'key_disabled',
    'The API key is disabled or revoked. Use another key, or ask an operator: a key that is revoked cannot be enabled again.',
  );
}

export function expiredKey(expiredAt: Date): AppError {
  return new AppError(
    'authentication',
    'key_expired',
    `The API key expired at ${expiredAt.toISOString()}. Use another key, or ask an operator for a new one.`,
  );
}

export function frozenTeam(): AppError {
  return new AppError(
    'permission',
    'team_frozen',
    'The team of this API key, or a team above it, is frozen. Ask an operator to unfreeze it.',
  );
}
