import type { AnswerFacts, AnswerFormat } from './answerFormat.ts';
import { type Encoding, encodingOf, StreamDecoder } from './contentEncoding.ts';
import { HeldAnswer, type HoldBudget } from './heldAnswer.ts';
import { StreamTap } from './streamTap.ts';

const NOTHING = Buffer.alloc(0);

export interface AnswerReaderOptions {
  readonly format: AnswerFormat;
  readonly hideUsage: boolean;
  /** The answer's `content-encoding`. */
  readonly contentEncoding: unknown;
  readonly budget: HoldBudget;
  /** Told of each event, decoded. */
  readonly onEvent?: ((event: Buffer, isOnlyUsage: boolean) => void) | undefined;
}

/**
 * Reads a streamed answer on its way, encoded or not. What is encoded passes as it is, read on the side, unless
 * something has to be hidden in it: then it passes decoded.
 */
export class AnswerReader {
  readonly #tap: StreamTap;
  readonly #held: HeldAnswer;
  readonly #decoder: StreamDecoder | undefined;
  readonly #isUnreadable: boolean;
  /** What passes is not what the vendor sent, so its `content-encoding` is not true of it. */
  readonly passesDecoded: boolean;
  /** What passes is plain text, so an event of our own may follow it. */
  readonly passesText: boolean;

  constructor({ format, hideUsage, contentEncoding, budget, onEvent }: AnswerReaderOptions) {
    const encoding = encodingOf(contentEncoding);
    this.#tap = new StreamTap({ format, hideUsage, onEvent });
    this.#held = new HeldAnswer(budget);
    this.#isUnreadable = encoding === 'unknown';
    this.#decoder = isKnown(encoding) ? new StreamDecoder(encoding) : undefined;
    this.passesDecoded = this.#decoder !== undefined && hideUsage;
    this.passesText = encoding === undefined || this.passesDecoded;
  }

  get facts(): AnswerFacts {
    return this.#tap.facts;
  }

  /** Takes what came and returns what goes to the caller; a promise only where it has to be decoded first. */
  push(chunk: Buffer): Buffer | Promise<Buffer> {
    if (this.#decoder) return this.#decode(this.#decoder.push(chunk), chunk);
    this.#held.add(chunk);
    return this.#isUnreadable ? chunk : this.#tap.push(chunk);
  }

  /** What is left when the vendor's stream ends well. */
  async end(): Promise<Buffer> {
    if (this.#isUnreadable) return NOTHING;
    const shown = this.#decoder ? await this.#decode(this.#decoder.end(), NOTHING) : NOTHING;
    const rest = this.#tap.end();
    return this.passesText ? Buffer.concat([shown, rest]) : NOTHING;
  }

  /** What the model wrote, as far as it was held, and how much longer the whole answer is. */
  text(format: AnswerFormat): { readonly text: string; readonly ratio: number } {
    return this.#held.text(format);
  }

  close(): void {
    this.#held.release();
    this.#decoder?.close();
  }

  async #decode(decoding: Promise<Buffer>, original: Buffer): Promise<Buffer> {
    const plain = await decoding;
    this.#held.add(plain);
    const shown = this.#tap.push(plain);
    return this.passesDecoded ? shown : original;
  }
}

function isKnown(encoding: Encoding | 'unknown' | undefined): encoding is Encoding {
  return encoding !== undefined && encoding !== 'unknown';
}
