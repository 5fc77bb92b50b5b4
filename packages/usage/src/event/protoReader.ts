import { LENGTH_DELIMITED, VARINT } from './fields.ts';

/** Thrown for an encoding that ProtoReader does not support. The library has to read the message, valid or not. */
export const UNSUPPORTED_ENCODING = new Error('unsupported encoding: use the library');

/** The library rejects a longer tag. */
const MAX_TAG_BYTES = 5;
/** The scale of the last byte of seven: more bits than a number holds exactly are unsupported. */
const LAST_SCALE = 128 ** 6;
const MAX_INT32 = 2_147_483_647;
const MAX_UINT32 = 4_294_967_295;

/**
 * A cursor over a message in the Protocol Buffers format (https://protobuf.dev/programming-guides/encoding). It supports
 * what our proxies write, in place and without an object of the message, for a fraction of the library's cost.
 */
export class ProtoReader {
  readonly bytes: Buffer;
  readonly end: number;
  at = 0;

  constructor(payload: Uint8Array) {
    this.bytes = Buffer.isBuffer(payload)
      ? payload
      : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
    this.end = this.bytes.length;
  }

  tag(): number {
    const start = this.at;
    const tag = this.uint32();
    if (this.at - start > MAX_TAG_BYTES) throw UNSUPPORTED_ENCODING;
    return tag;
  }

  varint(): number {
    const { bytes, end } = this;
    let value = 0;
    let scale = 1;
    for (let at = this.at; at < end && scale <= LAST_SCALE; at++) {
      const byte = bytes[at] as number;
      if (byte < 0x80) {
        this.at = at + 1;
        return value + byte * scale;
      }
      value += (byte - 0x80) * scale;
      scale *= 128;
    }
    throw UNSUPPORTED_ENCODING;
  }

  uint32(): number {
    const value = this.varint();
    if (value > MAX_UINT32) throw UNSUPPORTED_ENCODING;
    return value;
  }

  enumValue(): number {
    const value = this.varint();
    if (value > MAX_INT32) throw UNSUPPORTED_ENCODING;
    return value;
  }

  bool(): boolean {
    const value = this.varint();
    if (value > 1) throw UNSUPPORTED_ENCODING;
    return value === 1;
  }

  /** ASCII without NUL. */
  text(): string {
    const end = this.endOfBytes();
    const { bytes, at: start } = this;
    for (let at = start; at < end; at++) {
      const byte = bytes[at] as number;
      if (byte === 0 || byte > 0x7f) throw UNSUPPORTED_ENCODING;
    }
    this.at = end;
    return bytes.toString('latin1', start, end);
  }

  /** Reads the length of a field of bytes. Returns its end; the cursor is at its start. */
  endOfBytes(): number {
    const length = this.varint();
    const end = this.at + length;
    if (end > this.end) throw UNSUPPORTED_ENCODING;
    return end;
  }

  /** A view of a field of bytes. */
  subarray(): Buffer {
    const end = this.endOfBytes();
    const view = this.bytes.subarray(this.at, end);
    this.at = end;
    return view;
  }

  /** Skips the value of an unknown field. */
  skip(tag: number): void {
    const wireType = tag % 8;
    if (wireType === LENGTH_DELIMITED) this.at = this.endOfBytes();
    else if (wireType === VARINT) this.varint();
    else throw UNSUPPORTED_ENCODING;
  }
}
