/**
 * Protobuf as our own proxies write it (https://protobuf.dev/programming-guides/encoding), read in place: no message is
 * made of it. Whatever is unusual is left to the library, which costs several times as much.
 */
export interface Wire {
  readonly bytes: Buffer;
  at: number;
  readonly end: number;
}

export function wireOf(payload: Uint8Array): Wire {
  const bytes = Buffer.isBuffer(payload)
    ? payload
    : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
  return { bytes, at: 0, end: bytes.length };
}

/** Thrown where the library is to read it: it may be fine, or anything else. */
export const UNUSUAL = new Error('an encoding that is left to the library');

/** How a field's value is written: the last three bits of its tag, which has the field's number before them. */
export const VARINT = 0;
export const BYTES = 2;

/** The library takes none that is longer. */
const MAX_TAG_BYTES = 5;

export function readTag(wire: Wire): number {
  const start = wire.at;
  const tag = readUint32(wire);
  if (wire.at - start > MAX_TAG_BYTES) throw UNUSUAL;
  return tag;
}

/** Seven bytes of seven bits: all that a number holds exactly. */
const LAST_SCALE = 128 ** 6;
const MAX_INT32 = 2_147_483_647;
const MAX_UINT32 = 4_294_967_295;

export function readVarint(wire: Wire): number {
  const { bytes, end } = wire;
  let value = 0;
  let scale = 1;
  for (let at = wire.at; at < end && scale <= LAST_SCALE; at++) {
    const byte = bytes[at] as number;
    if (byte < 0x80) {
      wire.at = at + 1;
      return value + byte * scale;
    }
    value += (byte - 0x80) * scale;
    scale *= 128;
  }
  throw UNUSUAL;
}

export function readUint32(wire: Wire): number {
  const value = readVarint(wire);
  if (value > MAX_UINT32) throw UNUSUAL;
  return value;
}

/** As far as anybody names values. */
export function readEnum(wire: Wire): number {
  const value = readVarint(wire);
  if (value > MAX_INT32) throw UNUSUAL;
  return value;
}

export function readBool(wire: Wire): boolean {
  const value = readVarint(wire);
  if (value > 1) throw UNUSUAL;
  return value === 1;
}

/** A text of ASCII without NUL. */
export function readText(wire: Wire): string {
  const end = endOfBytes(wire);
  const { bytes, at: start } = wire;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === 0 || byte > 0x7f) throw UNUSUAL;
  }
  wire.at = end;
  return bytes.toString('latin1', start, end);
}

/** Reads how long a field of bytes is, and returns where it ends. */
export function endOfBytes(wire: Wire): number {
  const length = readVarint(wire);
  const end = wire.at + length;
  if (end > wire.end) throw UNUSUAL;
  return end;
}

/** Passes over what is not known here. */
export function skip(wire: Wire, tag: number): void {
  if (tag % 8 === BYTES) wire.at = endOfBytes(wire);
  else if (tag % 8 === VARINT) readVarint(wire);
  else throw UNUSUAL;
}
