import { AppError } from './appError.ts';

/** Why a request's key is not let in: the same words on both surfaces. */

export function missingKey(): AppError {
  return new AppError(
    'authentication',
    'missing_api_key',
    'Send your key in the header "Authorization: Bearer sk-svc-…".',
  );
}

export function unknownKey(): AppError {
  return new AppError(
    'authentication',
    'invalid_api_key',
    'No key has this token. Check it for missing characters.',
  );
}

export function disabledKey(): AppError {
  return new AppError('authentication', 'key_disabled', 'This key is disabled.');
}

export function expiredKey(expiredAt: Date): AppError {
  return new AppError('authentication', 'key_expired', `This key expired at ${expiredAt.toISOString()}.`);
}
