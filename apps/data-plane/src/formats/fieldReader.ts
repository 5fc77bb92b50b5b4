import {
  CLOSE_ARRAY,
  COMMA,
  type JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  type Span,
} from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { cursorOver } from './longValues.ts';
import { type Bound, type Fields, type ListValue, MAX_ITEMS } from './requestFields/field.ts';

const BACKSLASH = 0x5c;
const LOWER_T = 0x74;
const LOWER_F = 0x66;
/** A byte that is written as `\u0041`. */
const ESCAPED_BYTES = 6;

/**
 * Reads members of a client's body by their kind, which the first byte tells, and by the bounds of their table. A value beyond its
 * bound is refused before it is decoded, whatever its kind. A value of another kind is undefined: the vendor refuses it, or takes it.
 *
 * The bytes were scanned before: they are JSON.
 */
export class FieldReader {
  readonly #bytes: Buffer;
  readonly #fields: Fields;
  readonly #prefix: string;

  /** `prefix`: the path of the object that has the members, such as `generationConfig.`. */
  constructor(bytes: Buffer, fields: Fields, prefix = '') {
    this.#bytes = bytes;
    this.#fields = fields;
    this.#prefix = prefix;
  }

  text(name: string, span: Span | undefined): string | undefined {
    return span && readText(this.#bytes, span, this.#bound(name), this.#prefix + name);
  }

  /** A whole number above zero. */
  count(name: string, span: Span | undefined): number | undefined {
    return span && readCount(this.#bytes, span, this.#bound(name), this.#prefix + name);
  }

  flag(name: string, span: Span | undefined): boolean | undefined {
    if (!span) return undefined;
    assertBound(this.#bytes, span, this.#bound(name), this.#prefix + name);
    const byte = this.#bytes[span.start];
    return byte === LOWER_T ? true : byte === LOWER_F ? false : undefined;
  }

  /** The span of an object; undefined if the value is none. */
  object(name: string, span: Span | undefined): Span | undefined {
    if (!span) return undefined;
    assertBound(this.#bytes, span, this.#bound(name), this.#prefix + name);
    return this.#bytes[span.start] === OPEN_OBJECT ? span : undefined;
  }

  /** Throws a 400 if a list has more items than its table allows. */
  assertItems(name: string, span: Span | undefined): void {
    if (span) assertItems(this.#bytes, span, listOf(this.#fields, name), this.#prefix + name);
  }

  #bound(name: string): Bound {
    const bound = Object.hasOwn(this.#fields, name) ? this.#fields[name]?.bound : undefined;
    if (!bound) throw new Error(`the table has no bound for ${name}, which is read`);
    return bound;
  }
}

/** A text within its bound; undefined for a value of another kind. Throws a 400 beyond it. */
export function readText(bytes: Buffer, span: Span, bound: Bound, path: string): string | undefined {
  assertBound(bytes, span, bound, path);
  if (bytes[span.start] !== QUOTE) return undefined;
  const text = bytes.toString('utf8', span.start + 1, span.end - 1);
  const value = text.includes('\\') ? String(JSON.parse(textIn(bytes, span))) : text;
  if (span.end - span.start - 2 > bound.bytes && Buffer.byteLength(value) > bound.bytes) {
    throw outOfBounds(path, bound);
  }
  return value;
}

/** A whole number above zero; undefined for anything else. Throws a 400 beyond its bound. */
export function readCount(bytes: Buffer, span: Span, bound: Bound, path: string): number | undefined {
  assertBound(bytes, span, bound, path);
  if (!isDigit(bytes[span.start] ?? 0)) return undefined;
  const value = Number(textIn(bytes, span));
  return Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

/** Throws a 400 if the value is longer than its bound; a text with escapes may still be, once it is decoded. */
function assertBound(bytes: Buffer, { start, end }: Span, bound: Bound, path: string): void {
  const length = end - start;
  if (length <= bound.bytes) return;
  if (bytes[start] !== QUOTE) throw outOfBounds(path, bound);
  const most = bytes.subarray(start, start + ESCAPED_BYTES * bound.bytes).includes(BACKSLASH)
    ? ESCAPED_BYTES * bound.bytes
    : bound.bytes;
  if (length - 2 > most) throw outOfBounds(path, bound);
}

/** The most items of a list that begins with this byte. */
export function mostItems(
  { most = MAX_ITEMS, mostTokens = most }: ListValue,
  first: number | undefined,
): number {
  return first !== undefined && isDigit(first) ? mostTokens : most;
}

function assertItems(bytes: Buffer, { start, end }: Span, list: ListValue, path: string): void {
  // Each has at least one byte and a comma.
  if (bytes[start] !== OPEN_ARRAY || end - start < 2 * (list.most ?? MAX_ITEMS)) return;
  const items = new ListItems(bytes, start, list, path);
  while (items.next()) items.cursor.skipValue();
}

/** Moves over the items of a list, and counts them. Throws a 400 if there are more than its table allows. */
export class ListItems {
  readonly cursor: JsonCursor;
  readonly #list: ListValue;
  readonly #path: string;
  /** Of the item at the cursor. */
  index = -1;

  constructor(bytes: Buffer, start: number, list: ListValue, path: string) {
    this.cursor = cursorOver(bytes);
    this.cursor.at = start + 1;
    this.#list = list;
    this.#path = path;
  }

  /** Moves to the next item; false if there is none. The item before it was passed over. */
  next(): boolean {
    const { cursor } = this;
    cursor.space();
    if (cursor.peek() === COMMA) {
      cursor.at++;
      cursor.space();
    }
    if (cursor.peek() === CLOSE_ARRAY) return false;
    const most = mostItems(this.#list, cursor.peek());
    if (++this.index >= most) throw tooManyItems(this.#path, most);
    return true;
  }
}

/** A small value, whatever it is; undefined if it is absent, larger or no JSON. */
export function parseSmall(bytes: Buffer, span: Span | undefined, mostBytes: number): unknown {
  if (!span || span.end - span.start > mostBytes) return undefined;
  try {
    return JSON.parse(textIn(bytes, span));
  } catch {
    return undefined;
  }
}

/** The bound of a field; throws if its table has none. */
export function boundOf(fields: Fields, name: string): Bound {
  const bound = fields[name]?.bound;
  if (!bound) throw new Error(`the table has no bound for ${name}, which is read`);
  return bound;
}

/** The list that a field may be. */
export function listOf(fields: Fields, name: string): ListValue {
  const value = fields[name]?.value;
  const list = value?.kind === 'kinds' ? value.list?.value : value;
  if (list?.kind !== 'list') throw new Error(`${name} is no list`);
  return list;
}

export function outOfBounds(path: string, { bytes, accepts }: Bound): AppError {
  const message = `${shown(path)} is larger than ${bytes} bytes. Accepted: ${accepts} of at most ${bytes} bytes.`;
  return refusal(path, message);
}

export function tooManyItems(path: string, most: number): AppError {
  const message = `${shown(path)} has more than ${most} items. Accepted: a list of at most ${most}.`;
  return refusal(path, message);
}

/** Of an object that a table describes, where its members are read. No client sends more. */
export const MAX_MEMBERS = 1_024;

export function tooManyMembers(path: string): AppError {
  const message = `${shown(path)} has more than ${MAX_MEMBERS} members. Accepted: an object of at most ${MAX_MEMBERS}.`;
  return refusal(path, message);
}

function refusal(path: string, message: string): AppError {
  return new AppError('invalid_request', 'field_out_of_bounds', message, { param: path });
}

function shown(path: string): string {
  return path === '' ? 'A field' : path;
}

function textIn(bytes: Buffer, { start, end }: Span): string {
  return bytes.toString('utf8', start, end);
}

export function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}
