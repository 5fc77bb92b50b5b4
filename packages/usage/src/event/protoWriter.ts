/** The most that a varint takes. */
const VARINT_BYTES = 10;
/** A value below this takes one byte. */
const ONE_BYTE = 0x80;
/** The most that a character of a string takes in UTF-8. */
const CHARACTER_BYTES = 3;
const INITIAL_BYTES = 16 * 1024;

/** Shared by all writers, because one message is written at a time. */
let scratch = Buffer.allocUnsafeSlow(INITIAL_BYTES);

/**
 * Writes fields in the Protocol Buffers format (https://protobuf.dev/programming-guides/encoding) without an object of the
 * message and the arrays that the library needs, which take ten times as long. Like the library, it omits empty and zero
 * values. Only one writer may be in use at a time: from its constructor to `finish`.
 */
export class ProtoWriter {
  #at = 0;
  #messageAt = 0;

  text(tag: number, value: string): this {
    if (value === '') return this;
    this.#tag(tag);
    this.#reserve(value.length * CHARACTER_BYTES + VARINT_BYTES);
    if (value.length < ONE_BYTE && this.#tryShortAscii(value)) return this;
    this.#varint(Buffer.byteLength(value));
    this.#at += scratch.write(value, this.#at);
    return this;
  }

  /** An element of a repeated field: written even if it is empty. */
  bytes(tag: number, value: Uint8Array): this {
    this.#tag(tag);
    this.#varint(value.length);
    return this.raw(value);
  }

  /** Ids and names are short ASCII: writing them here costs less than a call of `Buffer.write`. */
  #tryShortAscii(value: string): boolean {
    const start = this.#at + 1;
    for (let at = 0; at < value.length; at++) {
      const code = value.charCodeAt(at);
      if (code >= ONE_BYTE) return false;
      scratch[start + at] = code;
    }
    scratch[this.#at] = value.length;
    this.#at = start + value.length;
    return true;
  }

  /** An integer from 0 to 2⁵³ − 1, or the value of an enumeration. */
  count(tag: number, value: number): this {
    if (value !== 0) this.optionalCount(tag, value);
    return this;
  }

  flag(tag: number, value: boolean): this {
    return this.count(tag, value ? 1 : 0);
  }

  /** From 0 to 2⁶³ − 1. */
  bigint(tag: number, value: bigint): this {
    if (value <= Number.MAX_SAFE_INTEGER) return this.count(tag, Number(value));
    this.#tag(tag);
    let rest = value;
    for (; rest >= ONE_BYTE; rest >>= 7n) scratch[this.#at++] = Number(rest & 0x7fn) | ONE_BYTE;
    scratch[this.#at++] = Number(rest);
    return this;
  }

  /** A field with explicit presence: 0 is written, undefined is not. */
  optionalCount(tag: number, value: number | undefined): this {
    if (value === undefined) return this;
    this.#tag(tag);
    this.#varint(value);
    return this;
  }

  /** Begins a nested message of less than 128 bytes, not nested any further; `endMessage` has to follow its fields. */
  beginMessage(tag: number): this {
    this.#tag(tag);
    this.#messageAt = ++this.#at;
    return this;
  }

  endMessage(): this {
    scratch[this.#messageAt - 1] = this.#at - this.#messageAt;
    return this;
  }

  /** Fields that are encoded already. */
  raw(bytes: Uint8Array): this {
    this.#reserve(bytes.length);
    scratch.set(bytes, this.#at);
    this.#at += bytes.length;
    return this;
  }

  finish(): Uint8Array {
    return Buffer.from(scratch.subarray(0, this.#at));
  }

  #tag(tag: number): void {
    this.#reserve(2 * VARINT_BYTES);
    this.#varint(tag);
  }

  #varint(value: number): void {
    let rest = value;
    // A shift would drop the bits above 32.
    for (; rest >= 0x8000_0000; rest = Math.floor(rest / ONE_BYTE)) {
      scratch[this.#at++] = (rest % ONE_BYTE) | ONE_BYTE;
    }
    for (; rest >= ONE_BYTE; rest >>>= 7) scratch[this.#at++] = (rest & 0x7f) | ONE_BYTE;
    scratch[this.#at++] = rest;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= scratch.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * (scratch.length + bytes));
    scratch.copy(larger, 0, 0, this.#at);
    scratch = larger;
  }
}
