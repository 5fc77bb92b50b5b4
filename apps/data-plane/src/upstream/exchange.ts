import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { AnswerBody } from './answerBody.ts';

export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: AnswerBody;
}

/** One request to a vendor and its answer, as undici tells of them. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #signal: AbortSignal;
  readonly #onOver: () => void;
  #controller: Dispatcher.DispatchController | undefined;
  #body: AnswerBody | undefined;
  #isOver = false;
  #resolve: (answer: UpstreamAnswer) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  /** `signal` ends the request and its answer; `onOver` is called once, when nothing of it comes any more. */
  constructor(signal: AbortSignal, onOver: () => void) {
    this.#signal = signal;
    this.#onOver = onOver;
  }

  /** Sends the request; resolves with the head of the answer. */
  begin(dispatcher: Dispatcher, request: Dispatcher.DispatchOptions): Promise<UpstreamAnswer> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#signal.aborted) return this.#end(this.#reason());
      this.#signal.addEventListener('abort', this.#onAbort);
      dispatcher.dispatch(request, this);
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // It may have waited for its connection until nobody waited for it.
    if (this.#isOver) controller.abort(this.#reason());
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

  readonly #onAbort = (): void => {
    const reason = this.#reason();
    this.#end(reason);
    this.#controller?.abort(reason);
  };

  #end(error: Error | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (error) {
      this.#reject(error);
      this.#body?.fail(error);
    }
    this.#onOver();
  }

  #reason(): Error {
    const { reason } = this.#signal;
    return reason instanceof Error ? reason : new Error('the request was given up');
  }
}
