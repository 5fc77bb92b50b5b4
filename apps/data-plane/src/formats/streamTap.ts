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
  readonly #begins: Uint8Array;
  readonly #hideUsage: boolean;
  readonly #onEvent: StreamTapOptions['onEvent'];
  #isFirst = true;

  constructor({ format, hideUsage, onEvent }: StreamTapOptions) {
    this.#format = format;
    this.#marks = format.marks;
    this.#begins = beginningsOf(format.marks);
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
    const marks = this.#marks;
    // Calls cost more than a look at each byte, unless there are many.
    if (event.length > SMALL_EVENT_BYTES) return marks.some((mark) => saysSomething(event, mark, 0));
    const begins = this.#begins;
    const last = event.length - 1;
    for (let at = 0; at < last; at++) {
      if (event[at] !== QUOTE || begins[event[at + 1] ?? 0] === 0) continue;
      for (const mark of marks) if (isAt(event, mark, at) && saysSomething(event, mark, at)) return true;
    }
    return false;
  }
}

const SMALL_EVENT_BYTES = 1_024;
/** All marks are names of fields. */
const QUOTE = 0x22;

const knownBeginnings = new WeakMap<readonly Buffer[], Uint8Array>();

/** 1 for each byte that a mark goes on with behind its quote. */
function beginningsOf(marks: readonly Buffer[]): Uint8Array {
  const known = knownBeginnings.get(marks);
  if (known) return known;
  const begins = new Uint8Array(256);
  for (const mark of marks) begins[mark[1] ?? 0] = 1;
  knownBeginnings.set(marks, begins);
  return begins;
}

function isAt(event: Buffer, mark: Buffer, at: number): boolean {
  for (let index = 1; index < mark.length; index++) if (event[at + index] !== mark[index]) return false;
  return true;
}

/**
 * Whether a mark stands in an event, from some place on, with anything but null behind it: vendors write `"usage":null` in
 * every chunk.
 */
function saysSomething(event: Buffer, mark: Buffer, from: number): boolean {
  for (let at = event.indexOf(mark, from); at >= 0; at = event.indexOf(mark, at)) {
    at += mark.length;
    let next = event[at];
    while (next === COLON || next === SPACE) next = event[++at];
    if (next !== LOWER_N) return true;
  }
  return false;
}
