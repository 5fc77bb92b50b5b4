import { RecordFeedbackResponse_Result as Result } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import type { ControlPlane } from '../control/controlPlane.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RateBook } from '../rates/rateBook.ts';
import type { Feedback } from './feedback.ts';

export interface FeedbackDeps {
  readonly recordFeedback: ControlPlane['recordFeedback'];
  readonly rates: Pick<RateBook, 'admit' | 'settle'>;
}

/** It counts by now, or as soon as the ledger has the request that it is about. */
export type Given = 'counted' | 'pending';

/** Passes on what a caller says of an answer. It counts as a request where the key's are limited, and costs nothing. */
export async function giveFeedback(
  { recordFeedback, rates }: FeedbackDeps,
  key: ResolvedKey,
  { requestId, score, comment }: Feedback,
): Promise<Given> {
  rates.settle(await rates.admit(key.rates, 0), 0);
  const { result } = await recordFeedback({
    requestId,
    principalId: key.principalId,
    keyId: key.id,
    score,
    ...(comment !== undefined && { comment }),
  }).catch((error) => {
    const message = 'Feedback can not be taken right now. Try again.';
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
  const message = 'There is no request of yours with this request_id.';
  return new AppError('not_found', 'request_not_found', message, { param: 'request_id' });
}

function tooMany(): AppError {
  const message =
    'Too much feedback waits for requests that are not in the ledger yet. Give it once their answers are some seconds old.';
  return new AppError('rate_limit', 'rate_limit_exceeded', message, {
    headers: { 'retry-after': '30', 'x-should-retry': 'true' },
  });
}
