import { ChunkList } from './chunkList.ts';

/** Counts the bytes that are held, and may refuse them. */
export interface MemoryHold {
  /** False if fewer bytes are free. */
  tryTake(bytes: number): boolean;
  release(bytes: number): void;
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const NOTHING = Buffer.alloc(0);
const NO_PIECES: readonly Buffer[] = [];
/** A larger event passes in pieces, unread, so that the buffer stays bounded. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024;

/**
 * Splits a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) at the blank
 * lines between them, wherever the chunks end. Lines end in LF, CR LF or CR. No byte is lost or changed, and each is looked
 * at once.
 */
export class SseSplitter {
  /** Holds the pending bytes; undefined if they are not counted. */
  readonly #memory: MemoryHold | undefined;
  /** The beginning of an event whose end has not arrived. */
  readonly #pending = new ChunkList();
  /** Whether the last line of the pending bytes is empty. */
  #lineIsEmpty = true;
  /** The pending bytes end in CR; an LF that comes next belongs to it. */
  #afterReturn = false;
  /** That CR ended a blank line: the event is complete except for a possible LF. */
  #isComplete = false;
  /** The current event is too large, or memory is short: what comes of it is returned at once. */
  #isTooLarge = false;
  #pieces = NO_PIECES;

  constructor(memory?: MemoryHold) {
    this.#memory = memory;
  }

  /** Those of the buffers that the last `push` returned which are only parts of an event. */
  get pieces(): readonly Buffer[] {
    return this.#pieces;
  }

  /** Returns the events that the chunk completes, each with the blank line that ends it; a run of blank lines as one. */
  push(chunk: Buffer): Buffer[] {
    const events: Buffer[] = [];
    this.#pieces = NO_PIECES;
    if (chunk.length === 0) return events;
    let start = 0;
    let line = this.#afterReturn && chunk[0] === LINE_FEED ? 1 : 0;
    this.#afterReturn = false;
    if (this.#isComplete) {
      this.#complete(chunk.subarray(0, line), events);
      this.#isComplete = false;
      start = line;
    }
    // Where the event's first line begins: after blank lines that end no event.
    let content = start;
    let feed = chunk.indexOf(LINE_FEED, line);
    let back = chunk.indexOf(CARRIAGE_RETURN, line);
    while (feed >= 0 || back >= 0) {
      const end = feed < 0 || (back >= 0 && back < feed) ? back : feed;
      const isBlank = end === line && this.#lineIsEmpty;
      const isStray = isBlank && line === content && this.#pending.length === 0 && !this.#isTooLarge;
      line = end + 1;
      if (end === back) {
        if (chunk[line] === LINE_FEED) line++;
        else if (line === chunk.length) this.#afterReturn = true;
      }
      this.#lineIsEmpty = true;
      if (isBlank && this.#afterReturn) this.#isComplete = true;
      else if (isStray) content = line;
      else if (isBlank) {
        // The common case: the chunk is one event.
        const isAll = start === 0 && line === chunk.length;
        this.#complete(isAll ? chunk : chunk.subarray(start, line), events);
        start = line;
        content = line;
      }
      if (feed >= 0 && feed < line) feed = chunk.indexOf(LINE_FEED, line);
      if (back >= 0 && back < line) back = chunk.indexOf(CARRIAGE_RETURN, line);
    }
    if (line < chunk.length) this.#lineIsEmpty = false;
    if (start === chunk.length) return events;
    const rest = chunk.subarray(start);
    if (content === chunk.length) events.push(rest);
    else this.#keep(rest, events);
    return events;
  }

  /** The bytes after the last complete event. */
  rest(): Buffer {
    return this.#take(NOTHING);
  }

  #complete(last: Buffer, events: Buffer[]): void {
    if (!this.#isTooLarge) {
      events.push(this.#take(last));
      return;
    }
    this.#isTooLarge = false;
    if (last.length > 0) this.#addPiece(last, events);
  }

  #keep(bytes: Buffer, events: Buffer[]): void {
    const isTooLarge = this.#isTooLarge || this.#pending.length + bytes.length > MAX_EVENT_BYTES;
    if (isTooLarge || this.#memory?.tryTake(bytes.length) === false) {
      this.#isTooLarge = true;
      this.#addPiece(this.#take(bytes), events);
      return;
    }
    this.#pending.add(bytes);
  }

  #addPiece(piece: Buffer, events: Buffer[]): void {
    events.push(piece);
    this.#pieces = [...this.#pieces, piece];
  }

  #take(last: Buffer): Buffer {
    if (this.#pending.length === 0) return last;
    const taken = Buffer.concat([...this.#pending.chunks, last]);
    this.#memory?.release(this.#pending.length);
    this.#pending.clear();
    return taken;
  }
}

/** The `data:` lines of an event, joined; undefined if it has none, such as a keep-alive comment. */
export function eventData(event: Buffer): Buffer | undefined {
  const { bytes, lines, first } = scanData(event, undefined);
  if (lines <= 1) return first;
  // One buffer: those of single lines would take more memory than the event.
  const joined = Buffer.allocUnsafe(bytes + lines - 1);
  scanData(event, joined);
  return joined;
}

/**
 * The `data:` lines of an event where they are in it, from `offset` on: with several lines, all that is not data is blank.
 */
export function dataInPlace(event: Buffer): { readonly bytes: Buffer; readonly offset: number } {
  const { lines, first = NOTHING } = scanData(event, undefined);
  if (lines <= 1) return { bytes: first, offset: lines === 0 ? 0 : first.byteOffset - event.byteOffset };
  const bytes = Buffer.alloc(event.length, SPACE);
  scanData(event, bytes, true);
  return { bytes, offset: 0 };
}

interface DataLines {
  readonly lines: number;
  /** In all lines together. */
  readonly bytes: number;
  readonly first: Buffer | undefined;
}

/**
 * Measures the values of the `data:` lines, or copies them into `joined`: with an LF between them, or to where they are in
 * the event.
 */
function scanData(event: Buffer, joined: Buffer | undefined, isInPlace = false): DataLines {
  let lines = 0;
  let bytes = 0;
  let first: Buffer | undefined;
  let feed = event.indexOf(LINE_FEED);
  let back = event.indexOf(CARRIAGE_RETURN);
  for (let at = 0; at < event.length; ) {
    const end = Math.min(feed < 0 ? event.length : feed, back < 0 ? event.length : back);
    if (isDataLine(event, at)) {
      const from = at + DATA_LENGTH;
      const start = event[from] === SPACE ? from + 1 : from;
      if (joined && isInPlace) event.copy(joined, start, start, end);
      else if (joined) {
        if (lines > 0) joined[bytes + lines - 1] = LINE_FEED;
        event.copy(joined, bytes + lines, start, end);
      } else if (lines === 0) first = event.subarray(start, end);
      lines++;
      bytes += end - start;
    }
    at = end + 1;
    if (feed >= 0 && feed < at) feed = event.indexOf(LINE_FEED, at);
    if (back >= 0 && back < at) back = event.indexOf(CARRIAGE_RETURN, at);
  }
  return { lines, bytes, first };
}

const DATA_LENGTH = 5;

/** Whether a line that begins with `data:` begins here. */
function isDataLine(event: Buffer, at: number): boolean {
  return (
    event[at] === 0x64 &&
    event[at + 1] === 0x61 &&
    event[at + 2] === 0x74 &&
    event[at + 3] === 0x61 &&
    event[at + 4] === 0x3a
  );
}
