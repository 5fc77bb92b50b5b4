import { eventData, SseSplitter } from '@weighbridge/dialects';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { EventDataReader } from './eventDataReader.ts';
import { JsonPruner } from './jsonPruner.ts';
import { beginsObject, isNull } from './markers.ts';
import { nullUsageSpans } from './nullUsage.ts';
import { noFacts, type ResponseFacts, type ResponseFormat, readEvent } from './responseFormat.ts';
import type { Span } from './scanJson.ts';

const NOTHING = Buffer.alloc(0);
const USAGE = Buffer.from('"usage"');
const NO_SPANS: readonly Span[] = [];

/** Takes a complete event, unchanged, and what of it is hidden from a client that did not ask for the usage. */
export type OnEvent = (event: Buffer, hidden: readonly Span[]) => void;

export interface StreamTapOptions {
  readonly format: ResponseFormat;
  /** Hides the event that only reports usage, and `"usage":null` in the others: the client did not ask for it. */
  readonly hideUsage: boolean;
  readonly onEvent?: OnEvent | undefined;
  /** Holds the beginning of an event. Default: it is not counted. */
  readonly memory?: HeldMemory | undefined;
}

/**
 * Reads the events of a decoded stream for its usage. Forwards whole events, so that an error event can follow any of them,
 * and unchanged, but for what `hideUsage` cuts out. An event that is too large passes in pieces, which are not read.
 */
export class StreamTap {
  /** What the events so far report: id, usage, errors. */
  readonly facts: ResponseFacts = noFacts();
  readonly #splitter: SseSplitter;
  readonly #format: ResponseFormat;
  /** JSON keys that make an event worth parsing. */
  readonly #markers: readonly Buffer[];
  readonly #secondBytes: Uint8Array;
  readonly #hideUsage: boolean;
  readonly #onEvent: StreamTapOptions['onEvent'];
  #isFirst = true;
  /** The event that was read last may have a `"usage":null`. */
  #mayHaveNullUsage = false;
  /** Set while the pieces of an event pass that is too large to be held. */
  #large: EventDataReader | undefined;
  /** Set if the stream is a JSON document, labelled as a stream. */
  #document: JsonPruner | undefined;

  constructor({ format, hideUsage, onEvent, memory }: StreamTapOptions) {
    this.#splitter = new SseSplitter(memory);
    this.#format = format;
    this.#markers = format.markers;
    this.#secondBytes = secondBytesOf(format.markers);
    this.#hideUsage = hideUsage;
    this.#onEvent = onEvent;
  }

  /** Returns the bytes for the client. */
  push(chunk: Buffer): Buffer {
    const events = this.#splitter.push(chunk);
    let visible = 0;
    for (const event of events) {
      const shown = this.#shown(event, this.#readPassed(event));
      if (shown.length > 0) events[visible++] = shown;
    }
    events.length = visible;
    const [only] = events;
    return only && visible === 1 ? only : Buffer.concat(events);
  }

  /** The last bytes for the client, after the vendor's stream ended without an error. */
  end(): Buffer {
    const rest = this.#splitter.rest();
    const isOnlyUsage = this.#readRest(rest);
    return rest.length > 0 ? this.#shown(rest, isOnlyUsage) : NOTHING;
  }

  /** What the client sees of an event that was read. */
  #shown(event: Buffer, isOnlyUsage: boolean): Buffer {
    if (!this.#hideUsage && !this.#onEvent) return event;
    let hidden = NO_SPANS;
    if (isOnlyUsage) hidden = [{ start: 0, end: event.length }];
    else if (this.#mayHaveNullUsage) hidden = nullUsageSpans(event);
    this.#onEvent?.(event, hidden);
    return this.#hideUsage && hidden.length > 0 ? without(event, hidden) : event;
  }

  /** What the splitter passes on: an event, or a piece of a large one. Returns true if it only reports usage. */
  #readPassed(event: Buffer): boolean {
    this.#mayHaveNullUsage = false;
    if (this.#isFirst && beginsObject(event)) this.#document ??= new JsonPruner(this.#format.bodyShape);
    if (this.#document) {
      this.#document.push(event);
      return false;
    }
    if (this.#isPiece(event)) {
      this.#large ??= new EventDataReader(this.#format.eventShape);
      this.#large.push(event);
      // The client gets the piece before the event is complete.
      this.#format.readNames?.(this.#large.partial, this.facts);
      if (this.#large.isComplete) this.#endLarge();
      return false;
    }
    this.#endLarge();
    return this.#read(event);
  }

  #isPiece(event: Buffer): boolean {
    const { pieces } = this.#splitter;
    return pieces.length > 0 && pieces.includes(event);
  }

  #endLarge(): void {
    if (!this.#large) return;
    this.#isFirst = false;
    this.#format.readEvent(this.#large.result, this.facts);
    this.#large = undefined;
  }

  /** The bytes after the last complete event. */
  #readRest(rest: Buffer): boolean {
    const isOnlyUsage = rest.length > 0 && this.#readPassed(rest);
    this.#endLarge();
    if (this.#document) this.#format.readBody(this.#document.result, this.facts);
    return isOnlyUsage;
  }

  /** Returns true if the event only reports usage. */
  #read(event: Buffer): boolean {
    if (event.length <= MAX_DONE_BYTES && eventData(event)?.equals(DONE)) this.facts.isOver = true;
    if (!this.#isFirst && !this.#hasMarker(event)) return false;
    const data = eventData(event);
    if (data === undefined || !beginsObject(data)) return false;
    this.#isFirst = false;
    this.#mayHaveNullUsage = event.includes(USAGE);
    return readEvent(this.#format, data, this.facts);
  }

  /** Whether the event has a marker with a value other than null: vendors write `"usage":null` in every chunk. */
  #hasMarker(event: Buffer): boolean {
    // For a small event, a loop over its bytes costs less than the calls of `indexOf`.
    if (event.length > SMALL_EVENT_BYTES) return this.#hasMarkerInLarge(event);
    const markers = this.#markers;
    const secondBytes = this.#secondBytes;
    const last = event.length - 1;
    for (let at = 0; at < last; at++) {
      if (event[at] !== QUOTE || secondBytes[event[at + 1] ?? 0] === 0) continue;
      for (const marker of markers) {
        if (!isAt(event, marker, at)) continue;
        if (this.#tells(event, marker, at)) return true;
      }
    }
    return false;
  }

  #hasMarkerInLarge(event: Buffer): boolean {
    for (const marker of this.#markers) {
      for (let at = event.indexOf(marker); at >= 0; at = event.indexOf(marker, at + marker.length)) {
        if (this.#tells(event, marker, at)) return true;
      }
    }
    return false;
  }

  /** Whether the event is worth parsing for the marker at `at`. */
  #tells(event: Buffer, marker: Buffer, at: number): boolean {
    const end = at + marker.length;
    if (marker === this.#format.idMarker) return !this.#isNamed(event, end);
    if (!isNull(event, end)) return true;
    this.#mayHaveNullUsage = true;
    return false;
  }

  /** Whether an earlier event named the object whose id is the value at `from`. */
  #isNamed(event: Buffer, from: number): boolean {
    const start = event.indexOf(QUOTE, from) + 1;
    const end = event.indexOf(QUOTE, start);
    if (start === 0 || end < 0 || end - from > MAX_ID_BYTES) return false;
    return this.facts.objects?.ids.has(event.toString('latin1', start, end)) ?? false;
  }
}

/** What ends the streams of chat completions, and of some vendors any stream. */
const DONE = Buffer.from('[DONE]');
const MAX_DONE_BYTES = 32;
const SMALL_EVENT_BYTES = 1_024;
/** With what precedes it. */
const MAX_ID_BYTES = 520;
/** Every marker begins with a quote. */
const QUOTE = 0x22;

const knownSecondBytes = new WeakMap<readonly Buffer[], Uint8Array>();

/** 1 for each byte that follows the quote of a marker. */
function secondBytesOf(markers: readonly Buffer[]): Uint8Array {
  const known = knownSecondBytes.get(markers);
  if (known) return known;
  const secondBytes = new Uint8Array(256);
  for (const marker of markers) secondBytes[marker[1] ?? 0] = 1;
  knownSecondBytes.set(markers, secondBytes);
  return secondBytes;
}

function isAt(event: Buffer, marker: Buffer, at: number): boolean {
  for (let index = 1; index < marker.length; index++) if (event[at + index] !== marker[index]) return false;
  return true;
}

/** The bytes outside the spans, which are in order and do not overlap. */
export function without(bytes: Buffer, spans: readonly Span[]): Buffer {
  const visible: Buffer[] = [];
  let at = 0;
  for (const { start, end } of spans) {
    if (start > at) visible.push(bytes.subarray(at, start));
    at = end;
  }
  if (at < bytes.length) visible.push(bytes.subarray(at));
  return Buffer.concat(visible);
}
