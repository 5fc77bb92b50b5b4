import { AppError } from '@weighbridge/errors';
import { parseSmall } from '../formats/fieldReader.ts';
import { scanFields } from '../formats/generationRequest.ts';

/** A score for the response to one of the caller's requests. */
export interface Feedback {
  readonly requestId: string;
  /** From 0 to 1. */
  readonly score: number;
  readonly comment: string | undefined;
}

const FIELDS = new Set(['request_id', 'score', 'comment']);
/** The most bytes of a body. */
export const FEEDBACK_BYTES = 16 * 1_024;
const MAX_ID = 200;
const MAX_COMMENT = 1_000;

/** Reads the body of `POST /v1/feedback`; throws a 400 that names the field. */
export function readFeedback(body: Buffer): Feedback {
  // Refuses a duplicate field, which parsing would accept.
  scanFields(body, FIELDS);
  const fields = parseSmall(body, { start: 0, end: body.length }, FEEDBACK_BYTES) as Record<string, unknown>;
  for (const name of Object.keys(fields)) {
    if (!FIELDS.has(name)) throw invalid(name, 'is not a field of this operation');
  }
  const { request_id: requestId, score, comment } = fields;
  if (typeof requestId !== 'string' || requestId === '' || requestId.length > MAX_ID) {
    throw invalid('request_id', 'must be the x-request-id of a response');
  }
  if (typeof score !== 'number' || !(score >= 0 && score <= 1)) {
    throw invalid('score', 'must be a number from 0 to 1');
  }
  if (comment !== undefined && !isComment(comment)) {
    throw invalid('comment', `must be text of at most ${MAX_COMMENT} characters`);
  }
  return { requestId, score, comment };
}

function isComment(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_COMMENT && !value.includes('\0');
}

function invalid(name: string, what: string): AppError {
  const param = name.length <= 100 ? name : `${name.slice(0, 100)}…`;
  return new AppError('invalid_request', 'invalid_request', `${param}: ${what}.`, { param });
}
