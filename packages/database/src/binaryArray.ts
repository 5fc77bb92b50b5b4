/**
 * The element type of an array in Postgres' binary format, in which nothing is quoted or parsed. For columns of thousands of
 * values; for a few, `arrayLiteral` is enough.
 */
export interface ElementType<V> {
  readonly name: string;
  /** The type's OID in Postgres. */
  readonly oid: number;
  /** The maximum size of a value; for text, per UTF-16 code unit. */
  readonly bytes: number;
  /** Writes a value, and returns the offset after it. */
  write(to: Buffer, at: number, value: V): number;
}

const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;

/** Encodes one column of `items` as an array. */
export function binaryArray<T, V extends string | number | bigint | boolean>(
  type: ElementType<V>,
  items: readonly T[],
  read: (item: T) => V | null | undefined,
): Buffer {
  const array = Buffer.allocUnsafe(mostBytes(type, items, read));
  let at = writeHeader(array, type.oid, items.length);
  let last: V | undefined;
  let lastStart = at;
  for (const item of items) {
    const value = read(item);
    if (value == null) {
      at = array.writeInt32BE(NULL_LENGTH, at);
    } else if (value === last) {
      // Neighbouring rows usually have the same value.
      const length = LENGTH_BYTES + array.readInt32BE(lastStart);
      array.copyWithin(at, lastStart, lastStart + length);
      at += length;
    } else {
      const end = type.write(array, at + LENGTH_BYTES, value);
      array.writeInt32BE(end - at - LENGTH_BYTES, at);
      last = value;
      lastStart = at;
      at = end;
    }
  }
  return array.subarray(0, at);
}

function mostBytes<T, V>(
  { bytes }: ElementType<V>,
  items: readonly T[],
  read: (item: T) => V | null | undefined,
): number {
  let most = HEADER_BYTES + LENGTH_BYTES * items.length;
  const first = items.find((item) => read(item) != null);
  if (typeof (first && read(first)) !== 'string') return most + bytes * items.length;
  for (const item of items) most += bytes * String(read(item) ?? '').length;
  return most;
}

/** One dimension with lower bound 1: https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/utils/adt/arrayfuncs.c */
function writeHeader(array: Buffer, oid: number, length: number): number {
  array.writeInt32BE(1, 0);
  array.writeInt32BE(0, 4);
  array.writeInt32BE(oid, 8);
  array.writeInt32BE(length, 12);
  return array.writeInt32BE(1, 16);
}

export const SMALLINT: ElementType<number> = {
  name: 'smallint',
  oid: 21,
  bytes: 2,
  write: (to, at, value) => to.writeInt16BE(value, at),
};

export const INTEGER: ElementType<number> = {
  name: 'integer',
  oid: 23,
  bytes: 4,
  write: (to, at, value) => to.writeInt32BE(value, at),
};

export const BIGINT: ElementType<bigint> = {
  name: 'bigint',
  oid: 20,
  bytes: 8,
  write: (to, at, value) => to.writeBigInt64BE(value, at),
};

export const FLOAT8: ElementType<number> = {
  name: 'float8',
  oid: 701,
  bytes: 8,
  write: (to, at, value) => to.writeDoubleBE(value, at),
};

export const BOOLEAN: ElementType<boolean> = {
  name: 'boolean',
  oid: 16,
  bytes: 1,
  write: (to, at, value) => to.writeUInt8(value ? 1 : 0, at),
};

/** Must not contain a NUL, which Postgres can't store. */
export const TEXT: ElementType<string> = {
  name: 'text',
  oid: 25,
  // UTF-8 takes at most three bytes per UTF-16 code unit.
  bytes: 3,
  write: (to, at, value) => at + to.write(value, at),
};

/** Unix milliseconds; exact for those of a `Date`. */
export const TIMESTAMPTZ: ElementType<number> = {
  name: 'timestamptz',
  oid: 1184,
  bytes: 8,
  write: (to, at, ms) => to.writeBigInt64BE(BigInt(ms - POSTGRES_EPOCH_MS) * 1_000n, at),
};

/** Postgres counts microseconds from 2000. */
const POSTGRES_EPOCH_MS = 946_684_800_000;

/** Written in hexadecimal digits. */
export const BYTEA: ElementType<string> = {
  name: 'bytea',
  oid: 17,
  bytes: 1,
  write: (to, at, digits) => at + to.write(digits, at, 'hex'),
};

/** Written in hexadecimal digits, with or without dashes. */
export const UUID: ElementType<string> = {
  name: 'uuid',
  oid: 2950,
  bytes: 1,
  write(to, at, value) {
    let written = at;
    for (let digit = 0; digit < value.length; digit += 2) {
      if (value.charCodeAt(digit) === DASH) digit++;
      to[written++] = hexDigit(value, digit) * 16 + hexDigit(value, digit + 1);
    }
    if (written - at !== UUID_BYTES) throw new RangeError('a UUID has 16 bytes');
    return written;
  },
};

const UUID_BYTES = 16;
const DASH = 0x2d;

function hexDigit(text: string, at: number): number {
  const code = text.charCodeAt(at);
  const value = code <= 0x39 ? code - 0x30 : (code | 0x20) - 0x57;
  if (!(value >= 0 && value < 16)) throw new RangeError('a UUID is written in hexadecimal digits');
  return value;
}
