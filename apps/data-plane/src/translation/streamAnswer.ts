import { StreamTranslator } from '@weighbridge/dialects';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import { answerOptions } from './answerOptions.ts';
import type { AttemptTranslation } from './requestTranslation.ts';

const NOTHING = Buffer.alloc(0);
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** A piece of an event that could not be held is no smaller, but for its last ones. */
const LEAST_PIECE_BYTES = 64 * 1024;
const TOO_LARGE = {
  status: 502,
  code: 'event_too_large',
  message: 'The vendor sent an event that is too large to be translated. Ask for less at once.',
};

/** A vendor's stream as it goes to a caller with another dialect. */
export class StreamAnswer {
  readonly #translator: StreamTranslator;
  /** What was translated since it was last taken. */
  #text = '';

  /** `facts`: of the vendor's events so far. */
  constructor(translation: AttemptTranslation, requestId: string, facts: () => ResponseFacts) {
    this.#translator = new StreamTranslator(answerOptions(translation, requestId, facts));
  }

  /** The last event for the caller has been translated. */
  get isOver(): boolean {
    return this.#translator.isOver;
  }

  /** What the caller's dialect has no words for, and how often it came. */
  get unknown(): ReadonlyMap<string, number> {
    return this.#translator.unknown;
  }

  /** Takes an event of the vendor's, once its usage is read; the last one may lack its blank line. */
  readonly add = (event: Buffer): void => {
    if (this.isOver) return;
    const last = event.at(-1);
    const isWhole = last === LINE_FEED || last === CARRIAGE_RETURN || event.length < LEAST_PIECE_BYTES;
    this.#text += isWhole ? this.#translator.push(event) : this.#translator.fail(TOO_LARGE);
  };

  /** Ends the stream: as the vendor did, or with an error if it was cut. */
  end(): void {
    if (!this.isOver) this.#text += this.#translator.end();
  }

  /** What goes to the caller now. */
  take(): Buffer {
    if (this.#text === '') return NOTHING;
    const bytes = Buffer.from(this.#text);
    this.#text = '';
    return bytes;
  }
}
