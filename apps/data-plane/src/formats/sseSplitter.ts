const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const DATA = Buffer.from('data:');
/** A larger event passes in pieces, unread, so that the buffer stays bounded. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024;

/**
 * Splits a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) at the blank
 * lines between them, wherever the chunks end. Lines end in LF, CR LF or CR. No byte is lost or changed.
 */
export class SseSplitter {
  /** The beginning of an event whose end has not arrived. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Whether the last line of the pending bytes is empty. */
  #lineIsEmpty = true;
  /** The pending bytes end in CR; an LF that comes next belongs to it. */
  #afterReturn = false;
  /** That CR ended a blank line: the event is complete except for a possible LF. */
  #isComplete = false;

  /** Returns the events that the chunk completes, each with the blank line that ends it. */
  push(chunk: Buffer): Buffer[] {
    const events: Buffer[] = [];
    if (chunk.length === 0) return events;
    let start = 0;
    let line = this.#afterReturn && chunk[0] === LINE_FEED ? 1 : 0;
    this.#afterReturn = false;
    if (this.#isComplete) {
      events.push(this.#take(chunk.subarray(0, line)));
      this.#isComplete = false;
      start = line;
    }
    let feed = chunk.indexOf(LINE_FEED, line);
    let back = chunk.indexOf(CARRIAGE_RETURN, line);
    while (feed >= 0 || back >= 0) {
      const end = feed < 0 || (back >= 0 && back < feed) ? back : feed;
      const isBlank = end === line && this.#lineIsEmpty;
      line = end + 1;
      if (end === back) {
        if (chunk[line] === LINE_FEED) line++;
        else if (line === chunk.length) this.#afterReturn = true;
      }
      this.#lineIsEmpty = true;
      if (isBlank && this.#afterReturn) this.#isComplete = true;
      else if (isBlank) {
        // The common case: the chunk is one event.
        const isAll = start === 0 && line === chunk.length;
        events.push(this.#take(isAll ? chunk : chunk.subarray(start, line)));
        start = line;
      }
      if (feed >= 0 && feed < line) feed = chunk.indexOf(LINE_FEED, line);
      if (back >= 0 && back < line) back = chunk.indexOf(CARRIAGE_RETURN, line);
    }
    if (line < chunk.length) this.#lineIsEmpty = false;
    if (start < chunk.length) this.#keepPending(chunk.subarray(start));
    if (this.#pendingBytes > MAX_EVENT_BYTES) events.push(this.rest());
    return events;
  }

  /** The bytes after the last complete event. */
  rest(): Buffer {
    return this.#take(Buffer.alloc(0));
  }

  #keepPending(bytes: Buffer): void {
    // A small rest is copied, so that it does not retain its chunk: there may be thousands of slow streams.
    this.#pending.push(bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes);
    this.#pendingBytes += bytes.length;
  }

  #take(last: Buffer): Buffer {
    if (this.#pending.length === 0) return last;
    this.#pending.push(last);
    const taken = Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pendingBytes = 0;
    return taken;
  }
}

/** The `data:` lines of an event, joined; undefined if it has none, such as a keep-alive comment. */
export function eventData(event: Buffer): Buffer | undefined {
  let data: Buffer | undefined;
  for (let at = 0; at < event.length; ) {
    const end = lineEnd(event, at);
    if (event.subarray(at, at + DATA.length).equals(DATA)) {
      const from = at + DATA.length;
      const value = event.subarray(event[from] === SPACE ? from + 1 : from, end);
      data = data ? Buffer.concat([data, Buffer.from('\n'), value]) : value;
    }
    at = end + 1;
  }
  return data;
}

function lineEnd(event: Buffer, from: number): number {
  const feed = event.indexOf(LINE_FEED, from);
  const back = event.subarray(from, feed < 0 ? event.length : feed).indexOf(CARRIAGE_RETURN);
  if (back >= 0) return from + back;
  return feed < 0 ? event.length : feed;
}
