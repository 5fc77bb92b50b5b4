import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Cancellation } from './cancellation.ts';
import { ResponseBody } from './responseBody.ts';
import { NeverSentError } from './upstreamErrors.ts';

export interface UpstreamResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: ResponseBody;
  /** The access token that the request went out with, if it was computed. */
  readonly token?: string | undefined;
}

/** One request to a vendor and its response, as a handler for undici. */
export class HttpExchange implements Dispatcher.DispatchHandler {
  readonly #cancellation: Cancellation;
  readonly #permit: { release(): void };
  readonly #beforeSending: (() => void) | undefined;
  readonly #token: string | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #body: ResponseBody | undefined;
  #isSending = false;
  #isOver = false;
  #resolve: (response: UpstreamResponse) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /**
   * `cancellation` ends the request and its response. The permit is released when the response is over. Nothing is sent if
   * `beforeSending` throws. `token` is the access token that the request goes out with.
   */
  constructor(
    cancellation: Cancellation,
    permit: { release(): void },
    beforeSending?: () => void,
    token?: string,
  ) {
    this.#cancellation = cancellation;
    this.#permit = permit;
    this.#beforeSending = beforeSending;
    this.#token = token;
  }

  /**
   * Resolves with the head of the response. Rejects with a `NeverSentError` if sending did not begin. `handler` reads the
   * answer and tells this exchange; default: the exchange reads it.
   */
  begin(
    dispatcher: Dispatcher,
    request: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler = this,
  ): Promise<UpstreamResponse> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#cancellation.reason) return this.#end(this.#cancellation.reason);
      this.#cancellation.onCancel(this.#onCancel);
      dispatcher.dispatch(request, handler);
    });
  }

  /** The connection is open; undici writes the head next. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Cancelled while it waited for a connection.
    if (this.#cancellation.reason) {
      controller.abort(this.#cancellation.reason);
      return;
    }
    try {
      this.#beforeSending?.();
    } catch (error) {
      controller.abort(error as Error);
      return;
    }
    this.#isSending = true;
    this.#controller = controller;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // Interim responses are not passed on (RFC 9110, section 15.2).
    if (status < 200) return;
    this.#body = new ResponseBody(controller);
    this.#resolve({ status, headers, body: this.#body, token: this.#token });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    this.#body?.end();
    this.#end(undefined);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(error);
  }

  readonly #onCancel = (reason: Error): void => {
    this.#end(reason);
    this.#controller?.abort(reason);
  };

  #end(error: Error | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancellation.offCancel(this.#onCancel);
    if (error) {
      this.#reject(this.#isSending ? error : new NeverSentError(error));
      this.#body?.fail(error);
    }
    this.#permit.release();
  }
}
