import type { ServerResponse } from 'node:http';
import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import { addRequestId, errorResponse, sendError } from '../attempt/errorResponse.ts';
import type { ResponseHeaders } from '../attempt/responseHeaders.ts';
import type { Observer } from '../observe/observer.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import { type NoteRefusal, noteRefusal } from './noteRefusal.ts';
import type { IncomingRequest } from './requestContext.ts';

export interface RespondDeps {
  readonly observer: Pick<Observer, 'failed'>;
  readonly noteRefusal: NoteRefusal;
  readonly logger: Logger;
}

/** Ends a request with an error, which it sends unless a response has begun. */
export function respondWithError(
  { observer, noteRefusal: note, logger }: RespondDeps,
  { id, dialect, headers: sentHeaders }: Pick<IncomingRequest, 'id' | 'dialect' | 'headers'>,
  observed: RequestObservation,
  error: unknown,
  { response, headers }: { readonly response: ServerResponse; readonly headers: ResponseHeaders },
): void {
  const sent = errorResponse(dialect, error, id);
  observer.failed(observed, error, sent.status);
  noteRefusal(note, observed, error, sent.status, sentHeaders);
  const isLogged = !(error instanceof AppError) || error.isLogged;
  if (sent.status >= 500 && isLogged) logger.error({ err: error, requestId: id }, 'request failed');
  if (response.headersSent || response.destroyed) return;
  addRequestId(headers, dialect, id);
  sendError(response, headers, sent, id);
}
