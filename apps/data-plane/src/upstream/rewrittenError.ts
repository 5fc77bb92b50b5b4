import type { IncomingHttpHeaders } from 'node:http';
import type { ResponseController, ResponseHandler } from './http1/httpCall.ts';

const MAX_ERROR_BYTES = 64 * 1024;

/** Passes an answer on as it is, but the body of an error as `rewrite` writes it. */
export class RewrittenError implements ResponseHandler {
  readonly #next: ResponseHandler;
  readonly #rewrite: (text: string) => string;
  #error: { readonly status: number; readonly headers: IncomingHttpHeaders } | undefined;
  readonly #chunks: Buffer[] = [];
  #length = 0;

  constructor(next: ResponseHandler, rewrite: (text: string) => string) {
    this.#next = next;
    this.#rewrite = rewrite;
  }

  onRequestStart(controller: ResponseController): void {
    this.#next.onRequestStart(controller);
  }

  onResponseStart(controller: ResponseController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 400) {
      this.#next.onResponseStart(controller, status, headers);
      return;
    }
    const { 'content-length': _length, ...others } = headers;
    this.#error = { status, headers: others };
  }

  onResponseData(controller: ResponseController, chunk: Buffer): void {
    if (!this.#error) {
      this.#next.onResponseData(controller, chunk);
      return;
    }
    if (this.#length < MAX_ERROR_BYTES) this.#chunks.push(chunk);
    this.#length += chunk.length;
  }

  onResponseEnd(controller: ResponseController): void {
    if (this.#error) {
      const { status, headers } = this.#error;
      const text = Buffer.concat(this.#chunks).toString('utf8', 0, MAX_ERROR_BYTES);
      this.#next.onResponseStart(controller, status, { ...headers, 'content-type': 'application/json' });
      this.#next.onResponseData(controller, Buffer.from(this.#rewrite(text), 'utf8'));
    }
    this.#next.onResponseEnd(controller);
  }

  onResponseError(controller: ResponseController, error: Error): void {
    this.#next.onResponseError(controller, error);
  }
}
