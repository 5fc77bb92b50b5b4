import type { IncomingMessage, ServerResponse } from 'node:http';
import type { DrainLimits } from '../attempt/clientConnection.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import type { ResponseHeaders } from '../attempt/responseHeaders.ts';
import type { Dialect } from '../formats/operation.ts';
import type { Endpoint } from '../observe/endpoints.ts';
import type { FeedbackDeps } from '../request/recordFeedback.ts';
import { respondWithError } from '../request/respondWithError.ts';
import type { RunDeps } from '../request/runRequest.ts';

/** What serving requests takes. */
export interface ServerDeps extends RunDeps, Pick<FeedbackDeps, 'recordFeedback'> {
  readonly bodyLimitBytes: number;
  readonly drainLimits: DrainLimits;
  /** Origins whose pages may call from a browser. */
  readonly corsOrigins: readonly string[];
  /** Why this proxy can't serve requests now, for an operator; undefined if it can. */
  readonly notReady: () => string | undefined;
  /** What this proxy can't do now, though it serves. */
  readonly degraded?: () => string | undefined;
}

/** A request on its route, and its response. */
export interface Exchange {
  readonly id: string;
  readonly endpoint: Endpoint;
  readonly dialect: Dialect;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The headers that this service adds to any response. */
  readonly headers: ResponseHeaders;
  /** With its question mark; empty if there is none. */
  readonly query: string;
  /** What the placeholder of the route's path stands for; empty if it has none. */
  readonly name: string;
}

/** Serves a request. Answers the client in every case; never throws or rejects. */
export type Serve = (deps: ServerDeps, exchange: Exchange) => void;

/** What this service answers itself, as JSON. */
export interface Answer {
  readonly status: number;
  readonly body: object;
}

export function sendAnswer({ id, dialect, response, headers }: Exchange, { status, body }: Answer): void {
  if (response.destroyed) return;
  const text = JSON.stringify(body);
  addRequestId(headers, dialect, id);
  headers.set('content-type', 'application/json; charset=utf-8');
  headers.set('content-length', String(Buffer.byteLength(text)));
  response.writeHead(status, headers.list).end(text);
}

/** Refuses a request whose key was not looked at. */
export function refuse(deps: ServerDeps, exchange: Exchange, error: unknown): void {
  const { id, endpoint, dialect, request } = exchange;
  const { headers } = request;
  const begun = { id, endpoint, receivedAt: performance.now(), key: undefined };
  const observed = deps.observer.begin(begun, headers);
  respondWithError(deps, { id, dialect, headers }, observed, error, exchange);
}
