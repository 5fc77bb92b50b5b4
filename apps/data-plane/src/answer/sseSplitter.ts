const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * Cuts a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) at the blank
 * lines between them, however the bytes are cut into chunks. No byte is lost or changed.
 */
export class SseSplitter {
  #held: Buffer[] = [];
  /** Whether the line that the held bytes end in has anything in it yet. */
  #lineIsEmpty = true;

  /** Takes a chunk and returns the events that it completes, each with the blank line that ends it. */
  push(chunk: Buffer): Buffer[] {
    const events: Buffer[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      if (byte === CARRIAGE_RETURN) continue;
      if (byte !== LINE_FEED) {
        this.#lineIsEmpty = false;
        continue;
      }
      if (this.#lineIsEmpty) {
        this.#held.push(chunk.subarray(start, at + 1));
        events.push(this.#take());
        start = at + 1;
      }
      this.#lineIsEmpty = true;
    }
    if (start < chunk.length) this.#held.push(chunk.subarray(start));
    return events;
  }

  /** What came after the last whole event. */
  rest(): Buffer {
    return this.#take();
  }

  #take(): Buffer {
    const [only, ...more] = this.#held;
    const taken = only && more.length === 0 ? only : Buffer.concat(this.#held);
    this.#held = [];
    return taken;
  }
}

/** The data of an event: its `data:` lines, joined. Undefined where it has none, as a comment that keeps a line alive. */
export function eventData(event: Buffer): string | undefined {
  const lines = event
    .toString('utf8')
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(line[5] === ' ' ? 6 : 5));
  return lines.length > 0 ? lines.join('\n') : undefined;
}
