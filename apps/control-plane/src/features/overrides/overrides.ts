import { AppError } from '@weighbridge/errors';
import type { CounterDefinition } from '../policies/definedCounters.ts';

/** An exception that lasts is a policy. */
export const MAX_DURATION_SECONDS = 366 * 86_400;

export function overrideNotFound(): AppError {
  return new AppError('not_found', 'override_not_found', 'There is no override with this id.', {
    param: 'override_id',
  });
}

/** The end of an override; throws a 422 if it is not within its bounds. */
export function assertEnd(endsAt: Date, now: Date): void {
  if (endsAt <= now) {
    const message = `ends_at must be in the future; it is now ${now.toISOString()}. To end an override, delete it.`;
    throw new AppError('validation', 'ends_at_in_past', message, { param: 'ends_at' });
  }
  if (endsAt.getTime() <= now.getTime() + MAX_DURATION_SECONDS * 1_000) return;
  const message = 'ends_at must be at most 366 days ahead. A limit that lasts longer is a policy.';
  throw new AppError('validation', 'ends_at_too_late', message, { param: 'ends_at' });
}

/** Returns the trimmed reason; throws a 422 if nothing is left. */
export function validReason(reason: string): string {
  const trimmed = reason.trim();
  if (trimmed !== '') return trimmed;
  throw new AppError('validation', 'reason_invalid', 'reason must say why.', { param: 'reason' });
}

export function overrideEnded(endedAt: Date): AppError {
  const message = `This override ended at ${endedAt.toISOString()}. Create another one.`;
  return new AppError('conflict', 'override_ended', message);
}

export function overrideExists(id: string): AppError {
  const message = `The override ${id} already stands in for the limit of this counter. Change or end it first.`;
  return new AppError('conflict', 'override_exists', message, { details: { override_id: id } });
}

/** Whoever needs more has someone else decide it. */
export function ownOverride(): AppError {
  const message = 'You cannot override the limit of your own principal. Ask another operator.';
  return new AppError('permission', 'own_override', message);
}

export function policyUnlimited(): AppError {
  const message = 'This policy has no limit that an override could stand in for.';
  return new AppError('validation', 'policy_unlimited', message, { param: 'policy_id' });
}

/** Counters are of the counter_scope of what defines them. */
export function counterMismatch(
  { limit, counterScope: scope }: Pick<CounterDefinition, 'limit' | 'counterScope'>,
  param: 'key_id' | 'principal_id' | 'value',
): AppError {
  const wanted: Readonly<Record<string, string>> = {
    key: 'Each key has its own counter: give key_id alone.',
    principal: 'Each principal has its own counter: give principal_id alone.',
    policy: 'All share its one counter: give neither principal_id nor key_id.',
  };
  const message = `The ${limit ? 'limit' : 'policy'} has counter_scope ${scope}. ${wanted[scope] ?? 'Each value of it has its own counter: give value alone.'}`;
  return new AppError('validation', 'counter_mismatch', message, { param });
}
