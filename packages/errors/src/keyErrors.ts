import { AppError } from './appError.ts';

export function missingKey(): AppError {
  return new AppError(
    'authentication',
    'missing_api_key',
    'The request has no API key. Send it in the header "Authorization: Bearer sk-svc-…".',
  );
}

export function unknownKey(): AppError {
  return new AppError(
    'authentication',
    'invalid_api_key',
    'The API key is unknown. Check it for missing characters, or ask an operator whether it still exists.',
  );
}

export function disabledKey(): AppError {
  return new AppError(
    'authentication',
    'key_disabled',
    'The API key is disabled. Ask an operator to enable it, or use another key.',
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
