import { type AnswerFacts, type AnswerFormat, noFacts } from './answerFormat.ts';
import { eventData, SseSplitter } from './sseSplitter.ts';

const NOTHING = Buffer.alloc(0);
const OPEN_BRACE = 0x7b;
const COLON = 0x3a;
const SPACE = 0x20;
const LOWER_N = 0x6e;

export interface StreamTapOptions {
  readonly format: AnswerFormat;
  /** The event that only reports usage stays hidden: the caller did not ask for it. */
  readonly hideUsage: boolean;
  /** Told of each event, whole and as it came. */
  readonly onEvent?: ((event: Buffer, isOnlyUsage: boolean) => void) | undefined;
}

/**
 * Reads a streamed answer as its bytes pass. Events go on whole, so that an error can follow any of them, and unchanged,
 * but for a hidden one.
 */
export class StreamTap {
  readonly facts: AnswerFacts = noFacts();
  readonly #splitter = new SseSplitter();
  readonly #format: AnswerFormat;
  readonly #marks: readonly Buffer[];
  readonly #hideUsage: boolean;
  readonly #onEvent: StreamTapOptions['onEvent'];
  #isFirst = true;

  constructor({ format, hideUsage, onEvent }: StreamTapOptions) {
    this.#format = format;
    this.#marks = format.marks;
    this.#hideUsage = hideUsage;
    this.#onEvent = onEvent;
  }

  /** Takes what came and returns what goes to the caller. */
  push(chunk: Buffer): Buffer {
    const events = this.#splitter.push(chunk);
    let shown = 0;
    for (const event of events) {
      const isOnlyUsage = this.#read(event);
      this.#onEvent?.(event, isOnlyUsage);
      if (!isOnlyUsage || !this.#hideUsage) events[shown++] = event;
    }
    events.length = shown;
    const [only] = events;
    return only && shown === 1 ? only : Buffer.concat(events);
  }

  /** What is left when the vendor's stream ends well. */
  end(): Buffer {
    const rest = this.#splitter.rest();
    // One document that calls itself a stream.
    if (this.#isFirst && rest[0] === OPEN_BRACE) this.#format.readWhole(rest, this.facts);
    const isOnlyUsage = rest.length > 0 && this.#read(rest);
    if (rest.length > 0) this.#onEvent?.(rest, isOnlyUsage);
    return isOnlyUsage && this.#hideUsage ? NOTHING : rest;
  }

  /** Takes note of an event; true where it does nothing but report usage. */
  #read(event: Buffer): boolean {
    if (!this.#isFirst && !this.#isMarked(event)) return false;
    const data = eventData(event);
    if (data?.[0] !== OPEN_BRACE) return false;
    this.#isFirst = false;
    return this.#format.readEvent(data, this.facts);
  }

  #isMarked(event: Buffer): boolean {
    for (const mark of this.#marks) if (saysSomething(event, mark)) return true;
    return false;
  }
}

/** Whether a mark stands in an event with anything but null behind it: vendors write `"usage":null` in every chunk. */
function saysSomething(event: Buffer, mark: Buffer): boolean {
  for (let at = event.indexOf(mark); at >= 0; at = event.indexOf(mark, at)) {
    at += mark.length;
    let next = event[at];
    while (next === COLON || next === SPACE) next = event[++at];
    if (next !== LOWER_N) return true;
  }
  return false;
}
