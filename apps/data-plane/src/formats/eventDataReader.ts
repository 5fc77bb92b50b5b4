import type { JsonRecord } from './jsonFields.ts';
import { JsonPruner } from './jsonPruner.ts';
import type { Shape } from './jsonShape.ts';

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const DATA = Buffer.from('data');
const NEW_LINE = Buffer.from('\n');

/** Reads the data of an event that is too large to be held, while its pieces pass. */
export class EventDataReader {
  readonly #pruner: JsonPruner;
  #isComplete = false;
  #isLineEmpty = true;
  /** The last byte was a CR: an LF that comes next belongs to it. */
  #afterReturn = false;
  /** How many bytes of a line's name are those of `data`; -1 in a line with another name. */
  #named = 0;
  /** In the value of a `data` line: before the space that may begin it, or after. */
  #inData: 'no' | 'start' | 'value' = 'no';

  constructor(wanted: Shape) {
    this.#pruner = new JsonPruner(wanted);
  }

  get result(): JsonRecord {
    return this.#pruner.result;
  }

  /** What was read so far, with what is still open. */
  get partial(): JsonRecord {
    return this.#pruner.partial;
  }

  /** The blank line that ends the event was read. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  push(piece: Buffer): void {
    let feed = piece.indexOf(LINE_FEED);
    let back = piece.indexOf(CARRIAGE_RETURN);
    for (let at = 0; at < piece.length && !this.#isComplete; ) {
      if (this.#afterReturn) {
        this.#afterReturn = false;
        if (feed === at) at++;
      }
      if (feed >= 0 && feed < at) feed = piece.indexOf(LINE_FEED, at);
      if (back >= 0 && back < at) back = piece.indexOf(CARRIAGE_RETURN, at);
      const end = Math.min(feed < 0 ? piece.length : feed, back < 0 ? piece.length : back);
      if (end > at) this.#part(piece, at, end);
      if (end === piece.length) return;
      this.#afterReturn = end === back;
      this.#endLine();
      at = end + 1;
    }
  }

  /** A part of one line. */
  #part(piece: Buffer, from: number, end: number): void {
    this.#isLineEmpty = false;
    let at = from;
    while (at < end && this.#inData === 'no' && this.#named >= 0) {
      const byte = piece[at++];
      if (this.#named === DATA.length) {
        if (byte === COLON) this.#inData = 'start';
        else this.#named = -1;
      } else this.#named = byte === DATA[this.#named] ? this.#named + 1 : -1;
    }
    if (this.#inData === 'no' || at === end) return;
    if (this.#inData === 'start' && piece[at] === SPACE) at++;
    this.#inData = 'value';
    this.#pruner.push(piece.subarray(at, end));
  }

  #endLine(): void {
    if (this.#inData !== 'no') this.#pruner.push(NEW_LINE);
    this.#isComplete = this.#isLineEmpty;
    this.#isLineEmpty = true;
    this.#inData = 'no';
    this.#named = 0;
  }
}
