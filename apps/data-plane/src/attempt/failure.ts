import type { ServerResponse } from 'node:http';
import { type HttpError, toHttpError, toMessagesError } from '@weighbridge/errors';
import { type Operation, RESPONSES, type Wire } from '../formats/operation.ts';
import type { AnswerHeaders } from './answerHeaders.ts';
import type { Caller } from './caller.ts';

export interface FailedAnswer {
  readonly caller: Pick<Caller, 'response' | 'headers'>;
  readonly plan: { readonly operation: Operation };
  readonly requestId: string;
}

/** An error as the clients of a wire know it. */
export function errorAnswer(wire: Wire, error: unknown, requestId: string): HttpError<object> {
  return wire === 'anthropic' ? toMessagesError(error, requestId) : toHttpError(error, requestId);
}

/** Tells the caller of a failure: by a status where that is still possible, else within the stream. */
export function tellFailure(
  { caller, plan, requestId }: FailedAnswer,
  failure: unknown,
  { passesText }: { readonly passesText: boolean },
): void {
  const { response } = caller;
  const { operation } = plan;
  if (!response.headersSent)
    sendError(response, caller.headers, errorAnswer(operation.wire, failure, requestId), requestId);
  else if (passesText) response.end(errorEvent(operation, failure, requestId));
  // Half a document with a good end would pass for a whole one.
  else response.destroy();
}

/** Tells the caller of a fault of this service in the midst of its answer: nobody else answers it any more. */
export function tellFault(failed: FailedAnswer, fault: unknown): void {
  const { response } = failed.caller;
  if (response.writableEnded || response.destroyed) return;
  try {
    tellFailure(failed, fault, { passesText: false });
  } catch {
    response.destroy();
  }
}

/** Answers with an error, on the socket's own response. */
export function sendError(
  response: ServerResponse,
  before: AnswerHeaders,
  { status, headers, body }: HttpError<object>,
  requestId: string,
): void {
  const text = JSON.stringify(body);
  const all = before.copy();
  for (const [name, value] of Object.entries(headers)) all.set(name, value);
  all.set('x-request-id', requestId);
  all.set('content-type', 'application/json; charset=utf-8');
  all.set('content-length', String(Buffer.byteLength(text)));
  response.writeHead(status, all.list);
  response.end(text);
}

/** An error as an event of a stream: those of chat completions have no name, the others do. */
function errorEvent(operation: Operation, failure: unknown, requestId: string): string {
  if (operation.wire === 'anthropic') {
    return `event: error\ndata: ${JSON.stringify(toMessagesError(failure, requestId).body)}\n\n`;
  }
  const { error } = toHttpError(failure, requestId).body;
  if (operation.route !== RESPONSES.route) return `data: ${JSON.stringify({ error })}\n\n`;
  const { code, message, param } = error;
  return `event: error\ndata: ${JSON.stringify({ type: 'error', code, message, param, error })}\n\n`;
}

/** Adds the headers by which a request is found again; the clients of the messages route read the second. */
export function addRequestId(headers: AnswerHeaders, wire: Wire, requestId: string): void {
  headers.set('x-request-id', requestId);
  if (wire === 'anthropic') headers.set('request-id', requestId);
}
