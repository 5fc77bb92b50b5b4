import { firstControlCharacter } from './controlCharacters.ts';
import type { KeyWatch } from './keyWatch.ts';

/** The bytes of a value: from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The bytes are not a JSON object. `message` says what is wrong and where; it is shown to the client. */
export class JsonScanError extends Error {
  override readonly name = 'JsonScanError';
  /** The name of a field that occurs twice. */
  readonly duplicate: string | undefined;
  /** The name of a field that is another one in a different case. */
  readonly variant: string | undefined;
  constructor(message: string, duplicate?: string, variant?: string) {
    super(message);
    this.duplicate = duplicate;
    this.variant = variant;
  }
}

/** A body has more items in the lists of its shape, more values in all, or deeper ones than its caller allows. */
export class TooManyItems extends Error {}

export const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
const COLON = 0x3a;
export const COMMA = 0x2c;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const ZERO = 0x30;
const LOWER_U = 0x75;

/** From this length on, `indexOf` finds the end of a string faster than a loop over its bytes. */
const LONG_TEXT_BYTES = 256;

/** Longer than any key that has a meaning, however it is escaped. */
const MAX_KEY_BYTES = 1_024;

/** The bytes that may follow a backslash. */
const ESCAPES = new Set([...'"\\/bfnrtu'].map((character) => character.charCodeAt(0)));

/** Deep enough for most. Scans do not overlap, so they share it. */
const SHARED_STACK = new Uint8Array(64);

/** Finds the next of one byte. What was searched is not searched again: that would take quadratic time where it is rare. */
class Finder {
  readonly #byte: number;
  #from = 0;
  #found = -1;

  constructor(byte: number) {
    this.#byte = byte;
  }

  next(bytes: Buffer, at: number): number {
    if (at < this.#from || at > this.#found) {
      const found = bytes.indexOf(this.#byte, at);
      this.#from = at;
      this.#found = found < 0 ? bytes.length : found;
    }
    return this.#found;
  }
}

/** Shorter values are skipped again as fast as they are looked up. */
const LONG_VALUE_BYTES = 64 * 1024;
/** As deep as a table leads. */
const MAX_LONG_DEPTH = 32;
const MAX_LONG_VALUES = 4_096;
/** Where the open containers of a skipped value start, by depth. Skips do not overlap, so they share it. */
const STARTS = new Float64Array(MAX_LONG_DEPTH);

/** Where long values in some bytes end, by where they start: later cursors need not go over them. */
export class LongValues {
  readonly #ends = new Map<number, number>();

  endOf(start: number): number | undefined {
    return this.#ends.get(start);
  }

  add(start: number, end: number): void {
    if (end - start < LONG_VALUE_BYTES || this.#ends.size >= MAX_LONG_VALUES) return;
    this.#ends.set(start, end);
  }
}

/** Moves over the tokens of JSON bytes, without parsing values: memory stays flat however large or deeply nested they are. */
export class JsonCursor {
  readonly bytes: Buffer;
  readonly #quotes = new Finder(QUOTE);
  readonly #backslashes = new Finder(BACKSLASH);
  at = 0;
  /** How many values were skipped, those within others included. */
  skipped = 0;
  /** Skipping more throws `TooManyItems`. */
  maxSkipped = Number.POSITIVE_INFINITY;
  /** How deep the deepest of them was nested, below the value that was skipped. */
  deepest = 0;
  /** One bit per open container below the top level: set for an object. Unlike recursion, it cannot overflow. */
  #stack = SHARED_STACK;
  #depth = 0;

  readonly #watch: KeyWatch | undefined;
  readonly #longValues: LongValues | undefined;

  /** `longValues`: of the same bytes. What is skipped by them is not counted in `skipped` and `deepest`. */
  constructor(bytes: Uint8Array, watch?: KeyWatch, longValues?: LongValues) {
    this.#watch = watch;
    this.#longValues = longValues;
    this.bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** The byte at the cursor; undefined at the end. */
  peek(): number | undefined {
    return this.at < this.bytes.length ? this.bytes[this.at] : undefined;
  }

  /** -1 at the end: reading beyond it once makes the compiler read three times slower from then on. */
  #byte(at: number): number {
    return at < this.bytes.length ? (this.bytes[at] as number) : -1;
  }

  /** Reads a key, its colon and the space before its value. A long one is cut, and not decoded: no table has it. */
  key(): string {
    const start = this.at;
    const escaped = this.string();
    const end = this.at;
    this.#watch?.see(this.bytes, start, end, escaped);
    this.space();
    if (this.#byte(this.at++) !== COLON) throw this.error('expected ":"', this.at - 1);
    this.space();
    if (end - start > MAX_KEY_BYTES) return this.bytes.toString('latin1', start + 1, start + MAX_KEY_BYTES);
    return escaped
      ? JSON.parse(this.bytes.toString('utf8', start, end))
      : this.bytes.toString('latin1', start + 1, end - 1);
  }

  /** As `key`, where some names are looked for: true if it is one of them. Others are not decoded. */
  isKeyOf(names: readonly string[]): boolean {
    const start = this.at;
    const isOne = names.some(
      (name) => this.#hasAt(start + 1, name) && this.#byte(start + 1 + name.length) === QUOTE,
    );
    const escaped = this.#skipKey();
    if (isOne || !escaped) return isOne;
    this.at = start;
    return names.includes(this.key());
  }

  /** Skips one value of any kind, without recursion. */
  skipValue(): void {
    // A watch has to see each key.
    const end = this.#watch ? undefined : this.#longValues?.endOf(this.at);
    if (end !== undefined) {
      this.at = end;
      return;
    }
    const floor = this.#depth;
    let inObject = false;
    for (;;) {
      if (++this.skipped > this.maxSkipped) throw new TooManyItems();
      const start = this.at;
      const byte = this.#byte(start);
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        this.at++;
        this.space();
        if (this.#byte(this.at) !== (byte === OPEN_OBJECT ? CLOSE_OBJECT : CLOSE_ARRAY)) {
          inObject = byte === OPEN_OBJECT;
          this.#push(inObject, start);
          if (inObject) this.#skipKey();
          continue;
        }
        this.at++;
      } else {
        if (byte === QUOTE) this.string();
        else this.#scalar();
        this.#longValues?.add(start, this.at);
      }
      // Moves past the brackets after the value.
      for (;;) {
        if (this.#depth === floor) return;
        this.space();
        const next = this.#byte(this.at++);
        if (next === COMMA) {
          this.space();
          if (inObject) this.#skipKey();
          break;
        }
        if (next !== (inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) {
          throw this.error(`expected "," or "${inObject ? '}' : ']'}"`, this.at - 1);
        }
        this.#pop();
        inObject = this.#depth > floor && this.#isInObject();
      }
    }
  }

  #pop(): void {
    this.#depth--;
    if (this.#longValues && this.#depth < MAX_LONG_DEPTH) {
      this.#longValues.add(STARTS[this.#depth] ?? 0, this.at);
    }
  }

  /** Whether the innermost open container, which there must be, is an object. */
  #isInObject(): boolean {
    const last = this.#depth - 1;
    return ((this.#stack[last >> 3] ?? 0) & (1 << (last & 7))) !== 0;
  }

  /** Returns whether it has an escape. */
  #skipKey(): boolean {
    const start = this.at;
    const escaped = this.string();
    this.#watch?.see(this.bytes, start, this.at, escaped);
    this.space();
    if (this.#byte(this.at++) !== COLON) throw this.error('expected ":"', this.at - 1);
    this.space();
    return escaped;
  }

  /** Reads a string, quotes included; returns whether it has an escape. */
  string(): boolean {
    if (this.#byte(this.at) !== QUOTE) throw this.error('expected a string in double quotes');
    const { bytes } = this;
    const { length } = bytes;
    let at = this.at + 1;
    let escaped = false;
    let longFrom = at + LONG_TEXT_BYTES;
    while (at < length) {
      const byte = bytes[at] as number;
      if (at === longFrom) {
        at = this.#plainEnd(at);
        longFrom = -1;
      }
      // First, since most letters are above.
      else if (byte > BACKSLASH) at++;
      else if (byte === QUOTE) {
        this.at = at + 1;
        return escaped;
      } else if (byte < 0x20) throw this.error('a control character in a string must be escaped', at);
      else if (byte === BACKSLASH) {
        escaped = true;
        at = this.#escape(at);
        longFrom = at + LONG_TEXT_BYTES;
      } else at++;
    }
    throw this.error('unterminated string', at);
  }

  /** The end of text without escapes, for long strings: an image is a string of megabytes. */
  #plainEnd(at: number): number {
    const end = Math.min(this.#quotes.next(this.bytes, at), this.#backslashes.next(this.bytes, at));
    return firstControlCharacter(this.bytes, at, end);
  }

  #escape(at: number): number {
    const kind = this.#byte(at + 1);
    if (!ESCAPES.has(kind)) throw this.error('unknown escape', at);
    if (kind !== LOWER_U) return at + 2;
    for (let digit = at + 2; digit < at + 6; digit++) {
      if (!isHexDigit(this.#byte(digit))) throw this.error('\\u takes four hexadecimal digits', at);
    }
    return at + 6;
  }

  #scalar(): void {
    const byte = this.#byte(this.at);
    if (byte === MINUS || isDigit(byte)) this.#number();
    else if (!this.#literal('true') && !this.#literal('false') && !this.#literal('null')) {
      throw this.error('expected a value');
    }
  }

  #number(): void {
    if (this.#byte(this.at) === MINUS) this.at++;
    if (this.#byte(this.at) === ZERO) this.at++;
    else this.#digits();
    if (this.#byte(this.at) === DOT) {
      this.at++;
      this.#digits();
    }
    const byte = this.#byte(this.at);
    if (byte === 0x65 || byte === 0x45) {
      const sign = this.#byte(this.at + 1);
      this.at += sign === PLUS || sign === MINUS ? 2 : 1;
      this.#digits();
    }
  }

  #digits(): void {
    if (!isDigit(this.#byte(this.at))) throw this.error('expected a digit');
    while (isDigit(this.#byte(this.at))) this.at++;
  }

  #literal(word: string): boolean {
    const isThere = this.#hasAt(this.at, word);
    if (isThere) this.at += word.length;
    return isThere;
  }

  #hasAt(at: number, word: string): boolean {
    for (let i = 0; i < word.length; i++) {
      if (this.#byte(at + i) !== word.charCodeAt(i)) return false;
    }
    return true;
  }

  space(): void {
    for (;;) {
      const byte = this.#byte(this.at);
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.at++;
    }
  }

  #push(isObject: boolean, start: number): void {
    if (this.#depth < MAX_LONG_DEPTH) STARTS[this.#depth] = start;
    const index = this.#depth >> 3;
    if (index === this.#stack.length) {
      const larger = new Uint8Array(this.#stack.length * 2);
      larger.set(this.#stack);
      this.#stack = larger;
    }
    const bit = 1 << (this.#depth & 7);
    const others = (this.#stack[index] ?? 0) & ~bit;
    this.#stack[index] = isObject ? others | bit : others;
    this.#depth++;
    if (this.#depth > this.deepest) this.deepest = this.#depth;
  }

  error(what: string, at = this.at): JsonScanError {
    const where = at >= this.bytes.length ? 'at the end' : `at byte ${at}`;
    return new JsonScanError(`${what}, ${where}`);
  }
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function isHexDigit(byte: number): boolean {
  return isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}
