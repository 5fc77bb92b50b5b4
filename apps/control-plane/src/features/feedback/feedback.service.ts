import { type RecordFeedbackRequest, RecordFeedbackResponse_Result } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { idTimeMs, isId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type FeedbackResult, recordFeedback } from '@weighbridge/evidence';

export interface FeedbackDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** Feedback may arrive before the ledger has its request, for this long; clocks may differ either way. */
const MAX_PENDING_MS = 10 * 60_000;
const MAX_COMMENT = 1_000;

/** Records a caller's feedback on a response to one of its own requests. */
export async function submitFeedback(
  { db, now }: FeedbackDeps,
  { requestId, principalId, keyId, score, comment }: RecordFeedbackRequest,
): Promise<FeedbackResult> {
  if (!(score >= 0 && score <= 1)) throw invalid('score', 'a number from 0 to 1');
  if (comment !== undefined && (comment.length > MAX_COMMENT || comment.includes('\0'))) {
    throw invalid('comment', `text of at most ${MAX_COMMENT} characters`);
  }
  if (!isId('req', requestId)) return 'unknown';
  const at = now();
  const mayArrive = Math.abs(at.getTime() - idTimeMs(requestId)) <= MAX_PENDING_MS;
  return await recordFeedback(db, { requestId, principalId, keyId, score, comment }, { now: at, mayArrive });
}

function invalid(param: string, what: string): AppError {
  return new AppError('invalid_request', 'invalid_request', `${param}: must be ${what}.`, { param });
}

/** As proxies get it. */
export function feedbackResult(result: FeedbackResult): RecordFeedbackResponse_Result {
  return FEEDBACK_RESULTS[result];
}

const FEEDBACK_RESULTS: Record<FeedbackResult, RecordFeedbackResponse_Result> = {
  counted: RecordFeedbackResponse_Result.COUNTED,
  pending: RecordFeedbackResponse_Result.PENDING,
  unknown: RecordFeedbackResponse_Result.UNKNOWN,
  too_many: RecordFeedbackResponse_Result.TOO_MANY,
};
