import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  JsonCursor,
  JsonScanError,
  OPEN_ARRAY,
  OPEN_OBJECT,
} from '@weighbridge/dialects';

/** A top-level member of an object, in canonical form. */
export interface CanonicalMember {
  /** As the bytes spell it, escapes included. */
  readonly name: string;
  /** Canonical JSON. */
  readonly value: Buffer;
  /** `"name":value`. */
  readonly bytes: Buffer;
}

const COLON = 0x3a;

/** Deeper nesting has no legitimate use. */
const MAX_DEPTH = 64;

/**
 * The members of an object in canonical form: objects that differ only in white space and in the order of members become
 * equal. Everything else counts as it is spelt: numbers may differ in digits that a double does not hold, and of duplicate
 * members a vendor may read either. Undefined if it is nested too deep. The bytes must be a valid JSON
 * object: of others it never throws, and means nothing.
 */
export function canonicalMembers(body: Buffer): readonly CanonicalMember[] | undefined {
  try {
    return new Canonical(body).members();
  } catch (error) {
    if (error instanceof TooDeep || error instanceof JsonScanError) return undefined;
    throw error;
  }
}

class TooDeep extends Error {}

/** The position of a member in the output. */
interface Written {
  readonly start: number;
  readonly nameEnd: number;
  readonly end: number;
}

class Canonical {
  readonly #cursor: JsonCursor;
  /** The output is never longer than the input. */
  readonly #to: Buffer;
  #end = 0;

  constructor(body: Buffer) {
    this.#cursor = new JsonCursor(body);
    this.#to = Buffer.allocUnsafe(body.length);
  }

  members(): CanonicalMember[] {
    const cursor = this.#cursor;
    cursor.space();
    if (cursor.peek() !== OPEN_OBJECT) throw cursor.error('expected an object');
    return this.#object(1).map(({ start, nameEnd, end }) => ({
      name: this.#to.toString('utf8', start + 1, nameEnd - 1),
      value: this.#to.subarray(nameEnd + 1, end - 1),
      bytes: this.#to.subarray(start, end - 1),
    }));
  }

  #value(depth: number): void {
    const cursor = this.#cursor;
    const byte = cursor.peek();
    if (byte !== OPEN_OBJECT && byte !== OPEN_ARRAY) {
      const from = cursor.at;
      cursor.skipValue();
      this.#copy(from);
    } else if (depth > MAX_DEPTH) throw new TooDeep();
    else if (byte === OPEN_OBJECT) this.#object(depth);
    else this.#array(depth);
  }

  #object(depth: number): Written[] {
    this.#open(OPEN_OBJECT);
    const written: Written[] = [];
    let isEscaped = false;
    while (this.#cursor.peek() !== CLOSE_OBJECT) {
      const start = this.#end;
      const from = this.#cursor.at;
      isEscaped = this.#cursor.string() || isEscaped;
      this.#copy(from);
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
    this.#open(OPEN_ARRAY);
    let isEmpty = true;
    while (this.#cursor.peek() !== CLOSE_ARRAY) {
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

  #open(bracket: number): void {
    this.#to[this.#end++] = bracket;
    this.#cursor.at++;
    this.#cursor.space();
  }

  /** Writes a separator, and skips it in the input, if the closing bracket may stand in its place. */
  #next(separator: number): void {
    const cursor = this.#cursor;
    cursor.space();
    this.#to[this.#end++] = separator;
    if (cursor.peek() === separator) cursor.at++;
    cursor.space();
  }

  /** Removes the comma that was written after the last item. */
  #close(bracket: number, hasComma: boolean): void {
    if (hasComma) this.#end--;
    this.#to[this.#end++] = bracket;
    this.#cursor.at++;
  }

  /** Copies what the cursor went over. */
  #copy(from: number): void {
    const { bytes, at } = this.#cursor;
    this.#end += bytes.copy(this.#to, this.#end, from, at);
  }
}
