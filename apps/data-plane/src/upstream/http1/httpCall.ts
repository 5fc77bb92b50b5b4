import type { IncomingHttpHeaders } from 'node:http';
import type { RequestBody } from '../../formats/requestBody.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  /** Names and values, alternating. The client writes `host`, `connection` and `content-length`. */
  readonly headers: readonly string[];
  readonly body: RequestBody | undefined;
}

/** Controls one answer while it arrives; without effect once that is over. */
export interface ResponseController {
  pause(): void;
  resume(): void;
  /** Ends the request and its answer: `onResponseError` is called with `reason`, and the connection is closed. */
  abort(reason: Error): void;
}

/** Reads one answer. After `onResponseEnd` or `onResponseError`, nothing more is called. */
export interface ResponseHandler {
  /** A connection is there; the first byte is written next, unless this aborts. */
  onRequestStart(controller: ResponseController): void;
  onResponseStart(controller: ResponseController, status: number, headers: IncomingHttpHeaders): void;
  /** The handler may keep `chunk`. */
  onResponseData(controller: ResponseController, chunk: Buffer): void;
  onResponseEnd(controller: ResponseController): void;
  onResponseError(controller: ResponseController, error: Error): void;
}

/** What a call asks of its connection. */
interface CallConnection {
  pause(): void;
  resume(): void;
  fail(error: Error): void;
}

/** One request and its answer. It knows its connection only while that serves it: connections serve others later. */
export class HttpCall implements ResponseController {
  readonly head: string;
  readonly body: RequestBody | undefined;
  readonly handler: ResponseHandler;
  connection: CallConnection | undefined;
  isOver = false;

  constructor(head: string, body: RequestBody | undefined, handler: ResponseHandler) {
    this.head = head;
    this.body = body;
    this.handler = handler;
  }

  pause(): void {
    this.connection?.pause();
  }

  resume(): void {
    this.connection?.resume();
  }

  abort(reason: Error): void {
    if (this.connection) this.connection.fail(reason);
    else this.fail(reason);
  }

  /** Called by the connection, or while there is none. */
  fail(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.connection = undefined;
    this.handler.onResponseError(this, error);
  }

  /** Called by the connection. */
  end(): void {
    this.isOver = true;
    this.connection = undefined;
    this.handler.onResponseEnd(this);
  }
}
