import type { IncomingHttpHeaders } from 'node:http';
import type { EventStreamCodec } from '@smithy/eventstream-codec';
import type { ResponseController, ResponseHandler } from '../http1/httpCall.ts';
import type { AnswerShape } from './answerShapes.ts';
import { EventFrames } from './eventFrames.ts';
import { withoutAwsAccount } from './withoutAwsAccount.ts';

const EVENT_STREAM = 'application/vnd.amazon.eventstream';
const MAX_ERROR_BYTES = 64 * 1024;

/** Passes an answer of Bedrock on in a shape that is read elsewhere: its frames as server-sent events, its errors as named there. */
export class InvocationAnswer implements ResponseHandler {
  readonly #next: ResponseHandler;
  readonly #codec: EventStreamCodec;
  readonly #shape: AnswerShape;
  #frames: EventFrames | undefined;
  /** Of an error: its head, and its body so far. */
  #error: { readonly status: number; readonly headers: IncomingHttpHeaders; text: string } | undefined;

  constructor(next: ResponseHandler, codec: EventStreamCodec, shape: AnswerShape) {
    this.#next = next;
    this.#codec = codec;
    this.#shape = shape;
  }

  onRequestStart(controller: ResponseController): void {
    this.#next.onRequestStart(controller);
  }

  onResponseStart(controller: ResponseController, status: number, headers: IncomingHttpHeaders): void {
    const { 'content-length': _length, 'content-type': type = '', ...others } = headers;
    if (status >= 400) {
      this.#error = { status, headers: others, text: '' };
      return;
    }
    if (!type.startsWith(EVENT_STREAM)) {
      this.#next.onResponseStart(controller, status, headers);
      return;
    }
    this.#frames = new EventFrames(this.#codec, this.#shape);
    const streamed = { ...others, 'content-type': 'text/event-stream; charset=utf-8' };
    this.#next.onResponseStart(controller, status, streamed);
  }

  onResponseData(controller: ResponseController, chunk: Buffer): void {
    if (this.#error) {
      if (this.#error.text.length < MAX_ERROR_BYTES) this.#error.text += chunk.toString('utf8');
      return;
    }
    if (!this.#frames) {
      this.#next.onResponseData(controller, chunk);
      return;
    }
    try {
      this.#frames.push(chunk, (events) => this.#next.onResponseData(controller, events));
    } catch (error) {
      controller.abort(error as Error);
    }
  }

  onResponseEnd(controller: ResponseController): void {
    try {
      if (this.#error) this.#passError(controller, this.#error);
      this.#frames?.end();
    } catch (error) {
      this.#next.onResponseError(controller, error as Error);
      return;
    }
    this.#next.onResponseEnd(controller);
  }

  onResponseError(controller: ResponseController, error: Error): void {
    this.#next.onResponseError(controller, error);
  }

  #passError(
    controller: ResponseController,
    {
      status,
      headers,
      text,
    }: { readonly status: number; readonly headers: IncomingHttpHeaders; readonly text: string },
  ): void {
    const [code = ''] = String(headers['x-amzn-errortype'] ?? '').split(':');
    const body = Buffer.from(
      JSON.stringify(this.#shape.error(code, withoutAwsAccount(messageOf(text)))),
      'utf8',
    );
    this.#next.onResponseStart(controller, status, { ...headers, 'content-type': 'application/json' });
    this.#next.onResponseData(controller, body);
  }
}

function messageOf(text: string): string {
  try {
    const { message, Message } = JSON.parse(text) as {
      readonly message?: unknown;
      readonly Message?: unknown;
    };
    const found = message ?? Message;
    return typeof found === 'string' ? found : '';
  } catch {
    return '';
  }
}
