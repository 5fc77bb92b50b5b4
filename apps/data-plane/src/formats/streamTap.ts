import { noFacts, type ResponseFacts, type ResponseFormat } from './responseFormat.ts';
import { eventData, SseSplitter } from './sseSplitter.ts';

const NOTHING = Buffer.alloc(0);
const OPEN_BRACE = 0x7b;
const COLON = 0x3a;
const SPACE = 0x20;
const LOWER_N = 0x6e;

export interface StreamTapOptions {
  readonly format: ResponseFormat;
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
  readonly facts: ResponseFacts = noFacts();
  readonly #splitter = new SseSplitter();
  readonly #format: ResponseFormat;
  readonly #markers: readonly Buffer[];
  readonly #begins: Uint8Array;
  readonly #hideUsage: boolean;
  readonly #onEvent: StreamTapOptions['onEvent'];
  #isFirst = true;

  constructor({ format, hideUsage, onEvent }: StreamTapOptions) {
    this.#format = format;
    this.#markers = format.markers;
    this.#begins = beginningsOf(format.markers);
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
    if (this.#isFirst && rest[0] === OPEN_BRACE) this.#format.readBody(rest, this.facts);
    const isOnlyUsage = rest.length > 0 && this.#read(rest);
    if (rest.length > 0) this.#onEvent?.(rest, isOnlyUsage);
    return isOnlyUsage && this.#hideUsage ? NOTHING : rest;
  }

  /** Takes note of an event; true where it does nothing but report usage. */
  #read(event: Buffer): boolean {
    if (!this.#isFirst && !this.#hasMarker(event)) return false;
    const data = eventData(event);
    if (data?.[0] !== OPEN_BRACE) return false;
    this.#isFirst = false;
    return this.#format.readEvent(data, this.facts);
  }

  #hasMarker(event: Buffer): boolean {
    const markers = this.#markers;
    // Calls cost more than a look at each byte, unless there are many.
    if (event.length > SMALL_EVENT_BYTES) return markers.some((marker) => saysSomething(event, marker, 0));
    const begins = this.#begins;
    const last = event.length - 1;
    for (let at = 0; at < last; at++) {
      if (event[at] !== QUOTE || begins[event[at + 1] ?? 0] === 0) continue;
      for (const marker of markers)
        if (isAt(event, marker, at) && saysSomething(event, marker, at)) return true;
    }
    return false;
  }
}

const SMALL_EVENT_BYTES = 1_024;
/** All markers are names of fields. */
const QUOTE = 0x22;

const knownBeginnings = new WeakMap<readonly Buffer[], Uint8Array>();

/** 1 for each byte that a marker goes on with behind its quote. */
function beginningsOf(markers: readonly Buffer[]): Uint8Array {
  const known = knownBeginnings.get(markers);
  if (known) return known;
  const begins = new Uint8Array(256);
  for (const marker of markers) begins[marker[1] ?? 0] = 1;
  knownBeginnings.set(markers, begins);
  return begins;
}

function isAt(event: Buffer, marker: Buffer, at: number): boolean {
  for (let index = 1; index < marker.length; index++) if (event[at + index] !== marker[index]) return false;
  return true;
}

/**
 * Whether a marker stands in an event, from some place on, with anything but null behind it: vendors write `"usage":null` in
 * every chunk.
 */
function saysSomething(event: Buffer, marker: Buffer, from: number): boolean {
  for (let at = event.indexOf(marker, from); at >= 0; at = event.indexOf(marker, at)) {
    at += marker.length;
    let next = event[at];
    while (next === COLON || next === SPACE) next = event[++at];
    if (next !== LOWER_N) return true;
  }
  return false;
}
