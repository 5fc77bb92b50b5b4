import type { EventStreamCodec } from '@smithy/eventstream-codec';
import type { AnswerShape } from './answerShapes.ts';
import { withoutAwsAccount } from './withoutAwsAccount.ts';

/** No event of a model comes near it. */
const MAX_FRAME_BYTES = 16 * 1024 * 1024;
const MIN_FRAME_BYTES = 16;

/** Turns AWS event-stream frames into server-sent events, as they come. */
export class EventFrames {
  readonly #codec: EventStreamCodec;
  readonly #shape: AnswerShape;
  #rest: Buffer = Buffer.alloc(0);

  constructor(codec: EventStreamCodec, shape: AnswerShape) {
    this.#codec = codec;
    this.#shape = shape;
  }

  /** Passes on the events that are whole now. Throws for what is not a frame, or was changed on its way, after those before. */
  push(chunk: Buffer, onEvents: (events: Buffer) => void): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let text = '';
    try {
      while (this.#rest.length >= 4) {
        const length = this.#rest.readUInt32BE(0);
        if (length < MIN_FRAME_BYTES || length > MAX_FRAME_BYTES) {
          throw new Error('an event has an absurd length');
        }
        if (this.#rest.length < length) break;
        text += this.#event(this.#rest.subarray(0, length));
        this.#rest = this.#rest.subarray(length);
      }
    } finally {
      if (text !== '') onEvents(Buffer.from(text, 'utf8'));
    }
  }

  /** Throws if the last frame broke off. */
  end(): void {
    if (this.#rest.length > 0) throw new Error('the last event broke off');
  }

  #event(frame: Buffer): string {
    const { headers, body } = this.#codec.decode(frame);
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
    const kind = headers[':message-type']?.value;
    if (kind === 'event') return this.#shape.event(String(headers[':event-type']?.value ?? ''), text);
    const code = String((headers[':exception-type'] ?? headers[':error-code'])?.value ?? '');
    return this.#shape.exception(code, withoutAwsAccount(messageOf(text)));
  }
}

function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { readonly message?: unknown };
    return typeof message === 'string' ? message : '';
  } catch {
    return '';
  }
}
