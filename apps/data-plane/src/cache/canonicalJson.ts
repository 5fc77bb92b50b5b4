/** A top-level member of an object, in canonical form. */
export interface CanonicalMember {
  /** As the bytes spell it, escapes included. */
  readonly name: string;
  /** Canonical JSON. */
  readonly value: Buffer;
  /** `"name":value`. */
  readonly bytes: Buffer;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** Deeper nesting has no legitimate use. */
const MAX_DEPTH = 64;

/**
 * The members of an object in canonical form: objects that differ only in white space and in the order of members become
 * equal. Everything else counts as it is spelt: numbers may differ in digits that a double does not hold, and of duplicate
 * members a vendor may read either. Undefined if it is nested too deep. The bytes must be a valid JSON object.
 */
export function canonicalMembers(body: Buffer): readonly CanonicalMember[] | undefined {
  return new Canonical(body).members();
}

/** The position of a member in the output. */
interface Written {
  readonly start: number;
  readonly nameEnd: number;
  readonly end: number;
}

class Canonical {
  readonly #from: Buffer;
  /** The output is never longer than the input. */
  readonly #to: Buffer;
  #at = 0;
  #end = 0;
  #isTooDeep = false;

  constructor(body: Buffer) {
    this.#from = body;
    this.#to = Buffer.allocUnsafe(body.length);
  }

  members(): CanonicalMember[] | undefined {
    this.#space();
    const written = this.#object(1);
    if (this.#isTooDeep) return undefined;
    return written.map(({ start, nameEnd, end }) => ({
      name: this.#to.toString('utf8', start + 1, nameEnd - 1),
      value: this.#to.subarray(nameEnd + 1, end - 1),
      bytes: this.#to.subarray(start, end - 1),
    }));
  }

  #value(depth: number): void {
    const byte = this.#from[this.#at];
    if (byte === QUOTE) this.#string();
    else if (byte !== OPEN_OBJECT && byte !== OPEN_ARRAY) this.#scalar();
    else if (depth > MAX_DEPTH) this.#giveUp();
    else if (byte === OPEN_OBJECT) this.#object(depth);
    else this.#array(depth);
  }

  #object(depth: number): Written[] {
    this.#copyByte();
    this.#space();
    const written: Written[] = [];
    let isEscaped = false;
    while (this.#at < this.#from.length && this.#from[this.#at] !== CLOSE_OBJECT) {
      const start = this.#end;
      isEscaped = this.#string() || isEscaped;
      const nameEnd = this.#end;
      this.#next(COLON);
      this.#value(depth + 1);
      this.#next(COMMA);
      written.push({ start, nameEnd, end: this.#end });
    }
    // Not sorted: two spellings of one name could swap, and the vendor may read the last.
    const sorted = isEscaped ? written : this.#sort(written);
    this.#close(CLOSE_OBJECT, written.length > 0);
    return sorted;
  }

  #array(depth: number): void {
    this.#copyByte();
    this.#space();
    let isEmpty = true;
    while (this.#at < this.#from.length && this.#from[this.#at] !== CLOSE_ARRAY) {
      this.#value(depth + 1);
      this.#next(COMMA);
      isEmpty = false;
    }
    this.#close(CLOSE_ARRAY, !isEmpty);
  }

  /** Sorts members by name; members with the same name stay in order. */
  #sort(written: Written[]): Written[] {
    const to = this.#to;
    const compare = (a: Written, b: Written) => to.compare(to, b.start, b.nameEnd, a.start, a.nameEnd);
    const [first] = written;
    if (!first || written.every((one, at) => at === 0 || compare(written[at - 1] as Written, one) <= 0)) {
      return written;
    }
    const before = Buffer.from(to.subarray(first.start, this.#end));
    let end = first.start;
    return written.toSorted(compare).map((one) => {
      const start = end;
      end += before.copy(to, start, one.start - first.start, one.end - first.start);
      return { start, nameEnd: start + one.nameEnd - one.start, end };
    });
  }

  /** Copies a string; returns whether it has an escape. */
  #string(): boolean {
    const from = this.#from;
    let close = from.indexOf(QUOTE, this.#at + 1);
    while (close > 0 && this.#isEscaped(close)) close = from.indexOf(QUOTE, close + 1);
    const end = close < 0 ? from.length : close + 1;
    const start = this.#end;
    this.#copyTo(end);
    return this.#to.subarray(start, this.#end).includes(BACKSLASH);
  }

  /** Whether an odd number of backslashes precedes the quote. */
  #isEscaped(quote: number): boolean {
    let at = quote - 1;
    while (this.#from[at] === BACKSLASH) at--;
    return (quote - 1 - at) % 2 === 1;
  }

  #scalar(): void {
    let end = this.#at;
    while (end < this.#from.length && !isDelimiter(this.#from[end])) end++;
    // Advances at least one byte, so that input that is not JSON cannot loop.
    this.#copyTo(Math.max(end, this.#at + 1));
  }

  /** Writes a separator, and skips it in the input, if the closing bracket may stand in its place. */
  #next(separator: number): void {
    this.#space();
    this.#to[this.#end++] = separator;
    if (this.#from[this.#at] === separator) this.#at++;
    this.#space();
  }

  /** Removes the comma that was written after the last item. */
  #close(bracket: number, hasComma: boolean): void {
    if (hasComma) this.#end--;
    this.#to[this.#end++] = bracket;
    this.#at++;
  }

  #copyByte(): void {
    this.#copyTo(this.#at + 1);
  }

  #copyTo(end: number): void {
    this.#end += this.#from.copy(this.#to, this.#end, this.#at, end);
    this.#at = end;
  }

  #space(): void {
    while (isSpace(this.#from[this.#at])) this.#at++;
  }

  #giveUp(): void {
    this.#isTooDeep = true;
    this.#at = this.#from.length;
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDelimiter(byte: number | undefined): boolean {
  return byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY || isSpace(byte);
}
