import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { AnswerBody } from './answerBody.ts';
import type { Cancellation } from './cancellation.ts';

export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: AnswerBody;
}

/** Ended a request of which not a byte can have reached the vendor; its cause says what did. */
export class NeverSentError extends Error {
  constructor(cause: unknown) {
    super('nothing was sent', { cause });
  }
}

/** One request to a vendor and its answer, as undici tells of them. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #cancellation: Cancellation;
  readonly #place: { leave(): void };
  #controller: Dispatcher.DispatchController | undefined;
  #body: AnswerBody | undefined;
  #isBegun = false;
  #isOver = false;
  #resolve: (answer: UpstreamAnswer) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /** `cancellation` ends the request and its answer; it leaves its place when nothing of it comes any more. */
  constructor(cancellation: Cancellation, place: { leave(): void }) {
    this.#cancellation = cancellation;
    this.#place = place;
  }

  /** Sends the request; resolves with the head of the answer. Rejects with a `NeverSentError` where it did not begin. */
  begin(dispatcher: Dispatcher, request: Dispatcher.DispatchOptions): Promise<UpstreamAnswer> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#cancellation.reason) return this.#end(this.#cancellation.reason);
      this.#cancellation.onCancel(this.#onCancel);
      dispatcher.dispatch(request, this);
    });
  }

  /** There is a connection, and the head is written next. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    // It may have waited for its connection until nobody waited for it.
    if (this.#cancellation.reason) {
      controller.abort(this.#cancellation.reason);
      return;
    }
    this.#isBegun = true;
    this.#controller = controller;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // Of what is only provisional, nobody is told (RFC 9110, section 15.2).
    if (status < 200) return;
    this.#body = new AnswerBody(controller);
    this.#resolve({ status, headers, body: this.#body });
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
    this.#cancellation.forget(this.#onCancel);
    if (error) {
      this.#reject(this.#isBegun ? error : new NeverSentError(error));
      this.#body?.fail(error);
    }
    this.#place.leave();
  }
}
