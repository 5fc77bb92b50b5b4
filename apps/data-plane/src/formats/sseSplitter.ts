const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const DATA = Buffer.from('data:');
/** An event beyond this size goes on in pieces, unread: what is held stays bounded whatever a vendor sends. */
const MAX_EVENT_BYTES = 16 * 1024 * 1024;

/**
 * Cuts a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) at the blank
 * lines between them, however the bytes are cut into chunks. Lines end in LF, CR LF or CR. No byte is lost or changed.
 */
export class SseSplitter {
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** Whether the line that the held bytes end in has anything in it yet. */
  #lineIsEmpty = true;
  /** The held bytes end in the CR of a line; an LF that comes next belongs to it. */
  #afterReturn = false;
  /** That CR ended a blank line, so the event is complete but for that LF. */
  #complete = false;

  /** Takes a chunk and returns the events that it completes, each with the blank line that ends it. */
  push(chunk: Buffer): Buffer[] {
    const events: Buffer[] = [];
    if (chunk.length === 0) return events;
    let start = 0;
    let line = this.#afterReturn && chunk[0] === LINE_FEED ? 1 : 0;
    this.#afterReturn = false;
    if (this.#complete) {
      events.push(this.#take(chunk.subarray(0, line)));
      this.#complete = false;
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
      if (isBlank && this.#afterReturn) this.#complete = true;
      else if (isBlank) {
        // Mostly a chunk is an event.
        const isAll = start === 0 && line === chunk.length;
        events.push(this.#take(isAll ? chunk : chunk.subarray(start, line)));
        start = line;
      }
      if (feed >= 0 && feed < line) feed = chunk.indexOf(LINE_FEED, line);
      if (back >= 0 && back < line) back = chunk.indexOf(CARRIAGE_RETURN, line);
    }
    if (line < chunk.length) this.#lineIsEmpty = false;
    if (start < chunk.length) this.#hold(chunk.subarray(start));
    if (this.#heldBytes > MAX_EVENT_BYTES) events.push(this.rest());
    return events;
  }

  /** What came after the last whole event. */
  rest(): Buffer {
    return this.#take(Buffer.alloc(0));
  }

  #hold(bytes: Buffer): void {
    // A copy of a small rest, so that it does not keep the whole chunk in memory: thousands may wait for their callers.
    this.#held.push(bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes);
    this.#heldBytes += bytes.length;
  }

  #take(last: Buffer): Buffer {
    if (this.#held.length === 0) return last;
    this.#held.push(last);
    const taken = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    return taken;
  }
}

/** The data of an event: its `data:` lines, joined. Undefined where it has none, as a comment that keeps a line alive. */
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
