import type { ServerResponse } from 'node:http';
import { type HttpError, toGoogleError, toHttpError, toMessagesError } from '@weighbridge/errors';
import type { EventsToArray } from '../formats/eventsToArray.ts';
import { type Dialect, type Operation, RESPONSES } from '../formats/operation.ts';
import type { ClientConnection } from './clientConnection.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/** A request that ends with an error. */
export interface FailedRequest {
  readonly client: Pick<ClientConnection, 'response' | 'headers'>;
  readonly operation: Operation;
  readonly requestId: string;
}

/** An error in the envelope of a dialect. */
export function errorResponse(dialect: Dialect, error: unknown, requestId: string): HttpError<object> {
  if (dialect === 'anthropic') return toMessagesError(error, requestId);
  return dialect === 'gemini' ? toGoogleError(error, requestId) : toHttpError(error, requestId);
}

/** Sends an error: as a status before the first byte, else as the last event of the stream. */
export function sendFailure(
  { client, operation, requestId }: FailedRequest,
  error: unknown,
  { emitsPlainText, array }: { readonly emitsPlainText: boolean; readonly array?: EventsToArray | undefined },
): void {
  const { response } = client;
  if (!response.headersSent)
    sendError(response, client.headers, errorResponse(operation.dialect, error, requestId), requestId);
  else if (array) response.end(array.end(JSON.stringify(toGoogleError(error, requestId).body)));
  else if (emitsPlainText) response.end(errorEvent(operation, error, requestId));
  // Ending half a document in order would make it look complete.
  else response.destroy();
}

/** Sends an internal error after the response was committed, when no one else answers the client. */
export function sendInternalError(failed: FailedRequest, error: unknown): void {
  const { response } = failed.client;
  if (response.writableEnded || response.destroyed) return;
  try {
    sendFailure(failed, error, { emitsPlainText: false });
  } catch {
    response.destroy();
  }
}

/** Writes an error response on the socket's own response. */
export function sendError(
  response: ServerResponse,
  added: ResponseHeaders,
  { status, headers, body }: HttpError<object>,
  requestId: string,
): void {
  const text = JSON.stringify(body);
  const all = added.copy();
  for (const [name, value] of Object.entries(headers)) all.set(name, value);
  all.set('x-request-id', requestId);
  all.set('content-type', 'application/json; charset=utf-8');
  all.set('content-length', String(Buffer.byteLength(text)));
  response.writeHead(status, all.list);
  response.end(text);
}

/** An error as an event of a stream. Events of chat completions have no name, those of the other routes do. */
function errorEvent(operation: Operation, failure: unknown, requestId: string): string {
  if (operation.dialect === 'anthropic') {
    return `event: error\ndata: ${JSON.stringify(toMessagesError(failure, requestId).body)}\n\n`;
  }
  if (operation.dialect === 'gemini') {
    return `data: ${JSON.stringify(toGoogleError(failure, requestId).body)}\n\n`;
  }
  const { error } = toHttpError(failure, requestId).body;
  if (operation.route !== RESPONSES.route) return `data: ${JSON.stringify({ error })}\n\n`;
  const { code, message, param } = error;
  return `event: error\ndata: ${JSON.stringify({ type: 'error', code, message, param, error })}\n\n`;
}

/** Adds the request's id under the name that each dialect's clients read. */
export function addRequestId(headers: ResponseHeaders, dialect: Dialect, requestId: string): void {
  headers.set('x-request-id', requestId);
  if (dialect === 'anthropic') headers.set('request-id', requestId);
}
