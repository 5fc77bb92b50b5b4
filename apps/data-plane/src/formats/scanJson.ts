/** Where a value stands in the bytes: from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The bytes are not JSON, or not of the kind wanted; `message` says what and where, for the caller. */
export class JsonScanError extends Error {
  override readonly name = 'JsonScanError';
  readonly duplicate: string | undefined;
  constructor(message: string, duplicate?: string) {
    super(message);
    this.duplicate = duplicate;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COLON = 0x3a;
const COMMA = 0x2c;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const ZERO = 0x30;
const LOWER_U = 0x75;

/** From here on, looking for the end of a text at once is faster than byte by byte. */
const LONG_TEXT_BYTES = 256;

/** Which bytes may follow a backslash. */
const ESCAPES = new Set([...'"\\/bfnrtu'].map((character) => character.charCodeAt(0)));

export interface ScanOptions {
  /** What a wanted field that is there twice means; a refusal unless told otherwise. */
  readonly duplicates?: 'refuse' | 'last';
}

/**
 * Finds top-level fields of a JSON object in one pass over its bytes, without making an object of it: memory stays
 * flat however large or deeply nested it is. What it accepts is what `JSON.parse` accepts, except that a wanted field
 * may stand there only once: which of two a vendor would read is nobody's guess.
 */
export function scanObject(
  bytes: Uint8Array,
  wanted: ReadonlySet<string>,
  options: ScanOptions = {},
): Map<string, Span> {
  return new Scanner(bytes, options.duplicates === 'last').object(wanted);
}

/** Deep enough for most. One scan ends before another begins, so all of them share it. */
const USUAL_STACK = new Uint8Array(64);

class Scanner {
  readonly #bytes: Buffer;
  readonly #lastCounts: boolean;
  #at = 0;
  /** One bit per open container below the top: set for an object. A stack of our own can't overflow. */
  #stack = USUAL_STACK;
  #depth = 0;

  constructor(bytes: Uint8Array, lastCounts: boolean) {
    this.#bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#lastCounts = lastCounts;
  }

  object(wanted: ReadonlySet<string>): Map<string, Span> {
    const found = new Map<string, Span>();
    this.#space();
    if (this.#bytes[this.#at] !== OPEN_OBJECT) throw this.#error('an object was expected');
    this.#at++;
    this.#space();
    if (this.#bytes[this.#at] === CLOSE_OBJECT) this.#at++;
    else this.#members(wanted, found);
    this.#space();
    if (this.#at < this.#bytes.length) throw this.#error('nothing was expected after the object');
    return found;
  }

  #members(wanted: ReadonlySet<string>, found: Map<string, Span>): void {
    for (;;) {
      const name = this.#key(wanted);
      this.#space();
      const start = this.#at;
      this.#value();
      if (name !== undefined) {
        if (found.has(name) && !this.#lastCounts) throw new JsonScanError(`"${name}" is there twice`, name);
        found.set(name, { start, end: this.#at });
      }
      this.#space();
      const next = this.#bytes[this.#at++];
      if (next === CLOSE_OBJECT) return;
      if (next !== COMMA) throw this.#error('"," or "}" was expected', this.#at - 1);
      this.#space();
    }
  }

  /** Reads a key and its colon; returns the name where it is a wanted one. */
  #key(wanted: ReadonlySet<string>): string | undefined {
    const start = this.#at;
    const escaped = this.#string();
    const end = this.#at;
    this.#space();
    if (this.#bytes[this.#at++] !== COLON) throw this.#error('":" was expected', this.#at - 1);
    const name: string = escaped
      ? JSON.parse(this.#bytes.toString('utf8', start, end))
      : this.#bytes.toString('latin1', start + 1, end - 1);
    return wanted.has(name) ? name : undefined;
  }

  /** Skips one value of any kind, without recursion. */
  #value(): void {
    const floor = this.#depth;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === OPEN_OBJECT) {
        this.#at++;
        this.#space();
        if (this.#bytes[this.#at] !== CLOSE_OBJECT) {
          this.#push(true);
          this.#skipKey();
          continue;
        }
        this.#at++;
      } else if (byte === OPEN_ARRAY) {
        this.#at++;
        this.#space();
        if (this.#bytes[this.#at] !== CLOSE_ARRAY) {
          this.#push(false);
          continue;
        }
        this.#at++;
      } else if (byte === QUOTE) this.#string();
      else this.#scalar();
      if (this.#closeContainers(floor)) return;
    }
  }

  /** After a value: moves past what ends with it. True when that was the value asked for; else the next one follows. */
  #closeContainers(floor: number): boolean {
    while (this.#depth > floor) {
      this.#space();
      const inObject = this.#top();
      const byte = this.#bytes[this.#at++];
      if (byte === COMMA) {
        this.#space();
        if (inObject) this.#skipKey();
        return false;
      }
      if (byte !== (inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) {
        throw this.#error(`"," or "${inObject ? '}' : ']'}" was expected`, this.#at - 1);
      }
      this.#depth--;
    }
    return true;
  }

  #skipKey(): void {
    this.#string();
    this.#space();
    if (this.#bytes[this.#at++] !== COLON) throw this.#error('":" was expected', this.#at - 1);
    this.#space();
  }

  /** Reads a string, from quote to quote; returns whether it holds an escape. */
  #string(): boolean {
    const bytes = this.#bytes;
    if (bytes[this.#at] !== QUOTE) throw this.#error('a string in double quotes was expected');
    let at = this.#at + 1;
    let escaped = false;
    let longFrom = at + LONG_TEXT_BYTES;
    for (;;) {
      const byte = bytes[at];
      if (byte === undefined) throw this.#error('a string does not end', at);
      if (at === longFrom) {
        at = this.#plainEnd(at);
        longFrom = -1;
      }
      // Most letters: first, since there are so many of them.
      else if (byte > BACKSLASH) at++;
      else if (byte === QUOTE) break;
      else if (byte < 0x20) throw this.#error('a control character in a string must be escaped', at);
      else if (byte === BACKSLASH) {
        escaped = true;
        at = this.#escape(at);
        longFrom = at + LONG_TEXT_BYTES;
      } else at++;
    }
    this.#at = at + 1;
    return escaped;
  }

  /** Where text that stands as it is ends, by what finds it faster in long text: an image is a string of megabytes. */
  #plainEnd(at: number): number {
    const end = Math.min(this.#next(QUOTE, at), this.#next(BACKSLASH, at));
    return firstControl(this.#bytes, at, end);
  }

  #next(byte: number, at: number): number {
    const found = this.#bytes.indexOf(byte, at);
    return found < 0 ? this.#bytes.length : found;
  }

  #escape(at: number): number {
    const kind = this.#bytes[at + 1] ?? 0;
    if (!ESCAPES.has(kind)) throw this.#error('an escape that JSON does not know', at);
    if (kind !== LOWER_U) return at + 2;
    for (let digit = at + 2; digit < at + 6; digit++) {
      if (!isHexDigit(this.#bytes[digit])) throw this.#error('\\u takes four hexadecimal digits', at);
    }
    return at + 6;
  }

  #scalar(): void {
    const byte = this.#bytes[this.#at];
    if (byte === MINUS || isDigit(byte)) this.#number();
    else if (!this.#literal('true') && !this.#literal('false') && !this.#literal('null')) {
      throw this.#error('a value was expected');
    }
  }

  #number(): void {
    if (this.#bytes[this.#at] === MINUS) this.#at++;
    if (this.#bytes[this.#at] === ZERO) this.#at++;
    else this.#digits();
    if (this.#bytes[this.#at] === DOT) {
      this.#at++;
      this.#digits();
    }
    const byte = this.#bytes[this.#at];
    if (byte === 0x65 || byte === 0x45) {
      const sign = this.#bytes[this.#at + 1];
      this.#at += sign === PLUS || sign === MINUS ? 2 : 1;
      this.#digits();
    }
  }

  #digits(): void {
    if (!isDigit(this.#bytes[this.#at])) throw this.#error('a digit was expected');
    while (isDigit(this.#bytes[this.#at])) this.#at++;
  }

  #literal(word: string): boolean {
    for (let i = 0; i < word.length; i++) {
      if (this.#bytes[this.#at + i] !== word.charCodeAt(i)) return false;
    }
    this.#at += word.length;
    return true;
  }

  #space(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    for (;;) {
      const byte = bytes[at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
      at++;
    }
    this.#at = at;
  }

  #push(isObject: boolean): void {
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
  }

  #top(): boolean {
    const last = this.#depth - 1;
    return ((this.#stack[last >> 3] ?? 0) & (1 << (last & 7))) !== 0;
  }

  #error(what: string, at = this.#at): JsonScanError {
    const where = at >= this.#bytes.length ? 'at its end' : `at byte ${at}`;
    return new JsonScanError(`${what}, ${where}`);
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function isHexDigit(byte: number | undefined): boolean {
  return isDigit(byte) || (byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}

/** The first control character from `from` up to `to`, else `to`; sixteen bytes at a time. */
function firstControl(bytes: Uint8Array, from: number, to: number): number {
  let at = from;
  for (; at < to && ((bytes.byteOffset + at) & 3) !== 0; at++) if (isControl(bytes[at])) return at;
  if (at >= to) return to;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, (to - at) >> 2);
  for (let index = 3; index < words.length; index += 4, at += 16) {
    const found =
      below0x20(words[index - 3]) |
      below0x20(words[index - 2]) |
      below0x20(words[index - 1]) |
      below0x20(words[index]);
    if ((found & HIGH_BITS) !== 0) break;
  }
  while (at < to && !isControl(bytes[at])) at++;
  return at;
}

const HIGH_BITS = 0x80808080 | 0;

/** The high bit of some byte is set where some byte is below 0x20: https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord */
function below0x20(word = 0): number {
  return (word - 0x20202020) & ~word;
}

function isControl(byte: number | undefined): boolean {
  return byte !== undefined && byte < 0x20;
}
