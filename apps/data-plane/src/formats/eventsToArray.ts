const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const DATA = Buffer.from('data:');
const NEW_LINE = Buffer.from('\n');

/** The type of the array, as Google gives it. */
export const ARRAY_TYPE = 'application/json; charset=UTF-8';

/** The array of a stream of events that is over. */
export function arrayOf(events: Buffer): Buffer {
  const array = new EventsToArray();
  return Buffer.concat([array.push(events), Buffer.from(array.end())]);
}

/**
 * Turns a stream of events, each with a JSON value, into one JSON array while it passes: what clients get that ask Gemini
 * for a stream without `alt=sse`. The vendor is asked for events in any case, so that all streams are read alike.
 */
export class EventsToArray {
  #hasItems = false;
  /** The line: before its name is known, its value after `data:`, or another one. */
  #line: 'start' | 'space' | 'value' | 'other' = 'start';
  #matched = 0;
  /** The event has a value, which a further line of data continues. */
  #inValue = false;
  #isLineEmpty = true;
  /** The last byte was a CR: an LF that comes next belongs to it. */
  #afterReturn = false;

  /** The bytes of an event, or a piece of one, as they go to the client. */
  push(events: Buffer): Buffer {
    const out: Buffer[] = [];
    let from = -1;
    for (let at = 0; at < events.length; at++) {
      const byte = events[at] as number;
      if (byte === LINE_FEED || byte === CARRIAGE_RETURN) {
        if (from >= 0) out.push(events.subarray(from, at));
        from = -1;
        this.#endLine(byte, out);
      } else if (from < 0 && this.#isValue(byte, out)) from = at;
    }
    if (from >= 0) out.push(events.subarray(from));
    return Buffer.concat(out);
  }

  /** The end of the array; `last` is one more item. */
  end(last?: string): string {
    const item = last === undefined ? '' : `${this.#hasItems ? ',\r\n' : '['}${last}`;
    return `${item}${this.#hasItems || last !== undefined ? '' : '['}]`;
  }

  /** Whether the byte belongs to the value of a line of data. */
  #isValue(byte: number, out: Buffer[]): boolean {
    this.#isLineEmpty = false;
    this.#afterReturn = false;
    if (this.#line === 'start') {
      if (byte !== DATA[this.#matched]) this.#line = 'other';
      else if (++this.#matched === DATA.length) this.#line = 'space';
      return false;
    }
    if (this.#line === 'other') return false;
    const isSeparator = this.#line === 'space' && byte === SPACE;
    this.#line = 'value';
    if (isSeparator) return false;
    if (!this.#inValue) out.push(Buffer.from(this.#hasItems ? ',\r\n' : '['));
    this.#hasItems = true;
    this.#inValue = true;
    return true;
  }

  #endLine(byte: number, out: Buffer[]): void {
    const isSecondHalf = byte === LINE_FEED && this.#afterReturn;
    this.#afterReturn = byte === CARRIAGE_RETURN;
    if (isSecondHalf) return;
    if (this.#isLineEmpty) this.#inValue = false;
    else if (this.#inValue && this.#line === 'value') out.push(NEW_LINE);
    this.#line = 'start';
    this.#matched = 0;
    this.#isLineEmpty = true;
  }
}
