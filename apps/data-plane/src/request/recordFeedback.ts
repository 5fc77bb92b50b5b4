import type { RateBook } from '@weighbridge/budget';
import { RecordFeedbackResponse_Result as Result } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import type { ResolvedKey } from '@weighbridge/state';
import type { ControlPlane } from '../control/controlPlane.ts';
import type { Feedback } from './feedback.ts';

export interface FeedbackDeps {
  readonly recordFeedback: ControlPlane['recordFeedback'];
  readonly rates: Pick<RateBook, 'admit' | 'settle'>;
}

/** `pending`: it counts as soon as the ledger has the request. */
export type FeedbackStatus = 'counted' | 'pending';

/** Sends feedback to the control plane. It counts against the key's rate limits, and costs nothing. */
export async function giveFeedback(
  { recordFeedback, rates }: FeedbackDeps,
  key: ResolvedKey,
  { requestId, score, comment }: Feedback,
): Promise<FeedbackStatus> {
  rates.settle(await rates.admit(key.rates, 0), 0);
  const { result } = await recordFeedback({
    requestId,
    principalId: key.principalId,
    keyId: key.id,
    score,
    ...(comment !== undefined && { comment }),
  }).catch((error) => {
    const message = 'Feedback cannot be recorded right now. Try again.';
    throw new AppError('unavailable', 'control_plane_unreachable', message, { cause: error });
  });
  switch (result) {
    case Result.COUNTED:
      return 'counted';
    case Result.PENDING:
      return 'pending';
    case Result.TOO_MANY:
      throw tooMany();
    default:
      throw unknownRequest();
  }
}

function unknownRequest(): AppError {
  const message = 'None of your requests has this request_id.';
  return new AppError('not_found', 'request_not_found', message, { param: 'request_id' });
}

function tooMany(): AppError {
  const message =
    'Too much feedback is waiting for requests that are not in the ledger yet. Wait 30 s and send it again.';
  return new AppError('rate_limit', 'rate_limit_exceeded', message, {
    headers: { 'retry-after': '30', 'x-should-retry': 'true' },
  });
}
