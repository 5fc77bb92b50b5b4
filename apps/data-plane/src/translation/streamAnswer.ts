import { StreamTranslator, type VendorError } from '@weighbridge/dialects';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
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

const NO_MEMORY = {
  status: 503,
  code: 'memory_budget_exhausted',
  message: 'This proxy has no memory free to put the parts of the answer in order. Try again.',
};

/** What keeps parts of an answer until it is their turn. */
export type AnswerMemory = Pick<HeldMemory, 'tryTake' | 'release'>;

/** A vendor's stream as it goes to a caller with another dialect. */
export class StreamAnswer {
  readonly #translator: StreamTranslator;
  /** What was translated since it was last taken. */
  #text = '';

  readonly #memory: AnswerMemory;
  #heldBytes = 0;

  /** `facts`: of the vendor's events so far. `memory`: what the request holds. */
  constructor(
    translation: AttemptTranslation,
    requestId: string,
    { facts, memory }: { readonly facts: () => ResponseFacts; readonly memory: AnswerMemory },
  ) {
    this.#memory = memory;
    this.#translator = new StreamTranslator(answerOptions(translation, requestId, facts));
  }

  /** The last event for the caller has been translated. */
  get isOver(): boolean {
    return this.#translator.isOver;
  }

  /** The whole answer, once it has ended well. */
  get whole(): string | undefined {
    return this.#translator.answer;
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
    if (this.#translator.heldBytes !== this.#heldBytes) this.#hold(this.#translator.heldBytes);
  };

  /** Ends the stream with an error of this service, unless it is over. */
  fail(error: VendorError): void {
    if (!this.isOver) this.#text += this.#translator.fail(error);
  }

  /** What waits for another block is held by the request, as long as it waits. */
  #hold(bytes: number): void {
    const more = bytes - this.#heldBytes;
    if (more > 0 && !this.#memory.tryTake(more)) {
      this.fail(NO_MEMORY);
      return;
    }
    if (more < 0) this.#memory.release(-more);
    this.#heldBytes = bytes;
  }

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
