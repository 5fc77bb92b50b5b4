import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';

const MAX_ERROR_BYTES = 64 * 1024;

/** Passes an answer on as it is, but the body of an error as `rewrite` writes it. */
export class RewrittenError implements Dispatcher.DispatchHandler {
  readonly #next: Dispatcher.DispatchHandler;
  readonly #rewrite: (text: string) => string;
  #error: { readonly status: number; readonly headers: IncomingHttpHeaders } | undefined;
  readonly #chunks: Buffer[] = [];
  #length = 0;

  constructor(next: Dispatcher.DispatchHandler, rewrite: (text: string) => string) {
    this.#next = next;
    this.#rewrite = rewrite;
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#next.onRequestStart?.(controller, context);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusMessage?: string,
  ): void {
    if (status < 400) {
      this.#next.onResponseStart?.(controller, status, headers, statusMessage);
      return;
    }
    const { 'content-length': _length, ...others } = headers;
    this.#error = { status, headers: others };
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#error) {
      this.#next.onResponseData?.(controller, chunk);
      return;
    }
    if (this.#length < MAX_ERROR_BYTES) this.#chunks.push(chunk);
    this.#length += chunk.length;
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    if (this.#error) {
      const { status, headers } = this.#error;
      const text = Buffer.concat(this.#chunks).toString('utf8', 0, MAX_ERROR_BYTES);
      this.#next.onResponseStart?.(controller, status, { ...headers, 'content-type': 'application/json' });
      this.#next.onResponseData?.(controller, Buffer.from(this.#rewrite(text), 'utf8'));
    }
    this.#next.onResponseEnd?.(controller, trailers);
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.#next.onResponseError?.(controller, error);
  }
}
