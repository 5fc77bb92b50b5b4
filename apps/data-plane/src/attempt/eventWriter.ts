import { TokenUsageSchema, UsageEventSchema } from '@weighbridge/contracts';
import type { TokenUsage } from '@weighbridge/domain';

/** The numbers of a usage event's fields. */
export const FIELD = numbersOf(UsageEventSchema);
const USAGE_FIELD = numbersOf(TokenUsageSchema);

const VARINT = 0;
const LENGTH_DELIMITED = 2;
const VARINT_BYTES = 10;
/** A length below this takes one byte. */
const ONE_BYTE = 0x80;
/** What a character of a string takes at most in UTF-8. */
const CHARACTER_BYTES = 3;
const FIRST_BYTES = 16 * 1024;

/** One event is written at a time, so all of them share it. */
let scratch = Buffer.allocUnsafeSlow(FIRST_BYTES);

/**
 * Writes fields of a usage event in the format of Protocol Buffers (https://protobuf.dev/programming-guides/encoding), as
 * the generated code would: that makes an object of the event first, and a dozen arrays on the way, and takes ten times as
 * long. What is empty or zero is left out, as there. From its making to `finish`, no other is to be written.
 */
export class EventWriter {
  #at = 0;

  text(field: number, value: string): this {
    if (value === '') return this;
    this.#tag(field, LENGTH_DELIMITED);
    this.#makeRoom(value.length * CHARACTER_BYTES + VARINT_BYTES);
    if (value.length < ONE_BYTE && this.#ascii(value)) return this;
    this.#varint(Buffer.byteLength(value));
    this.#at += scratch.write(value, this.#at);
    return this;
  }

  /** Ids and names are short and plain: writing those here takes less than a call would. False for any others. */
  #ascii(value: string): boolean {
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

  /** A whole number from 0 up to 2⁵³ − 1; of an enumeration, its value. */
  count(field: number, value: number): this {
    if (value !== 0) this.known(field, value);
    return this;
  }

  flag(field: number, value: boolean): this {
    return this.count(field, value ? 1 : 0);
  }

  /** From 0 up to 2⁶³ − 1. */
  large(field: number, value: bigint): this {
    if (value <= Number.MAX_SAFE_INTEGER) return this.count(field, Number(value));
    this.#tag(field, VARINT);
    let rest = value;
    for (; rest >= ONE_BYTE; rest >>= 7n) scratch[this.#at++] = Number(rest & 0x7fn) | ONE_BYTE;
    scratch[this.#at++] = Number(rest);
    return this;
  }

  /** Where a field says by being there that it is known. */
  known(field: number, value: number | undefined): this {
    if (value === undefined) return this;
    this.#tag(field, VARINT);
    this.#varint(value);
    return this;
  }

  usage(used: TokenUsage): this {
    this.#tag(FIELD.usage, LENGTH_DELIMITED);
    const lengthAt = this.#at++;
    this.count(USAGE_FIELD.input, used.inputTokens);
    this.count(USAGE_FIELD.cacheRead, used.cacheReadTokens);
    this.count(USAGE_FIELD.cacheWrite, used.cacheWriteTokens);
    this.count(USAGE_FIELD.cacheWrite1h, used.cacheWrite1hTokens);
    this.count(USAGE_FIELD.output, used.outputTokens);
    // Five numbers of a few bytes each.
    scratch[lengthAt] = this.#at - lengthAt - 1;
    return this;
  }

  /** Fields that were written elsewhere. */
  raw(bytes: Uint8Array): this {
    this.#makeRoom(bytes.length);
    scratch.set(bytes, this.#at);
    this.#at += bytes.length;
    return this;
  }

  finish(): Uint8Array {
    return Buffer.from(scratch.subarray(0, this.#at));
  }

  #tag(field: number, type: number): void {
    this.#makeRoom(2 * VARINT_BYTES);
    this.#varint(field * 8 + type);
  }

  #varint(value: number): void {
    let rest = value;
    // Beyond 32 bits, shifting would lose what is above.
    for (; rest >= 0x8000_0000; rest = Math.floor(rest / ONE_BYTE)) {
      scratch[this.#at++] = (rest % ONE_BYTE) | ONE_BYTE;
    }
    for (; rest >= ONE_BYTE; rest >>>= 7) scratch[this.#at++] = (rest & 0x7f) | ONE_BYTE;
    scratch[this.#at++] = rest;
  }

  #makeRoom(bytes: number): void {
    if (this.#at + bytes <= scratch.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * (scratch.length + bytes));
    scratch.copy(larger, 0, 0, this.#at);
    scratch = larger;
  }
}

interface Described {
  readonly field: Readonly<Record<string, { readonly number: number }>>;
}

function numbersOf<S extends Described>({ field }: S): { readonly [K in keyof S['field']]: number } {
  const entries = Object.entries(field).map(([name, { number }]) => [name, number]);
  return Object.fromEntries(entries) as { readonly [K in keyof S['field']]: number };
}
