import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { ApiError, bodyOf, type Client, type components } from '@weighbridge/client';

export type Plan = components['schemas']['Plan'];
export type PlannedCall = components['schemas']['PlannedCall'];
export type PlanError = components['schemas']['PlanError'];
export type Applied = components['schemas']['Applied'];

/** Has the service apply a plan; rejects if it refuses it. */
export type SendPlan = (plan: Plan) => Promise<Applied>;

const RETRY_MS = 500;
/** While another plan is applied. */
const MAX_WAITS = 120;
/** While the service does not respond. */
const MAX_LOST = 20;
const LOST: readonly number[] = [0, 502, 503, 504];

export function planSender(client: Client): SendPlan {
  return untilApplied((body, idempotencyKey) => {
    const header = { 'idempotency-key': idempotencyKey };
    return bodyOf(client.POST('/api/v1/apply', { body, params: { header } }));
  });
}

/** Sends a plan again, under the same Idempotency-Key, until the service says what became of it. */
export function untilApplied(
  send: (plan: Plan, idempotencyKey: string) => Promise<Applied>,
  pause: () => Promise<unknown> = () => setTimeout(RETRY_MS),
): SendPlan {
  return async (plan) => {
    const idempotencyKey = randomUUID();
    for (let tries = 1; ; tries++) {
      try {
        return await send(plan, idempotencyKey);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === 404) throw olderRelease(error);
        const isWaiting = error.code === 'apply_running' || error.code === 'apply_interrupted';
        if (!isWaiting && !LOST.includes(error.status)) throw error;
        if (tries >= (isWaiting ? MAX_WAITS : MAX_LOST)) {
          throw isWaiting || plan.dry_run ? error : unknownOutcome(error);
        }
        await pause();
      }
    }
  };
}

function olderRelease(cause: ApiError): Error {
  const message =
    'Nothing was changed. The service is of an earlier release, without POST /api/v1/apply. Update the control plane, or use the weighbridge command of its release.';
  return new Error(message, { cause });
}

function unknownOutcome(cause: ApiError): Error {
  const message = `${cause.message} Whether the changes were made is unknown: all were, or none. Run apply again, which makes what is missing.`;
  return new Error(message, { cause });
}
