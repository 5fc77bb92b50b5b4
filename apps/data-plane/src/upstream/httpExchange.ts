import type { IncomingHttpHeaders } from 'node:http';
import type { Cancellation } from './cancellation.ts';
import type { HttpRequest, ResponseController, ResponseHandler } from './http1/httpCall.ts';
import type { HttpPool } from './http1/httpPool.ts';
import { ResponseBody } from './responseBody.ts';
import { NeverSentError } from './upstreamErrors.ts';

export interface UpstreamResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: ResponseBody;
  /** The access token that the request went out with, if it was computed. */
  readonly token?: string | undefined;
}

/** One request to a vendor and its response. */
export class HttpExchange implements ResponseHandler {
  readonly #cancellation: Cancellation;
  readonly #permit: { release(): void };
  readonly #beforeSending: (() => void) | undefined;
  readonly #token: string | undefined;
  #controller: ResponseController | undefined;
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
    connections: HttpPool,
    request: HttpRequest,
    handler: ResponseHandler = this,
  ): Promise<UpstreamResponse> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#cancellation.reason) return this.#end(this.#cancellation.reason);
      this.#cancellation.onCancel(this.#onCancel);
      this.#controller = connections.send(request, handler);
    });
  }

  onRequestStart(controller: ResponseController): void {
    try {
      this.#beforeSending?.();
    } catch (error) {
      controller.abort(error as Error);
      return;
    }
    this.#isSending = true;
  }

  onResponseStart(controller: ResponseController, status: number, headers: IncomingHttpHeaders): void {
    this.#body = new ResponseBody(controller);
    this.#resolve({ status, headers, body: this.#body, token: this.#token });
  }

  onResponseData(_controller: ResponseController, chunk: Buffer): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    this.#body?.end();
    this.#end(undefined);
  }

  onResponseError(_controller: ResponseController, error: Error): void {
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
