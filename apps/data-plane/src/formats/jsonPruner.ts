import type { JsonRecord } from './jsonFields.ts';
import { type ItemsWanted, PrunedItems, type Shape, type Wanted } from './jsonShape.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COLON = 0x3a;
const COMMA = 0x2c;
const SPACE = 0x20;
const LOWER_N = 0x6e;

/** A larger value is left out, as if it were absent. */
const MAX_VALUE_BYTES = 64 * 1024;
/** No wanted name is longer, even if all of it is escaped. */
const MAX_KEY_BYTES = 256;
const MAX_KEPT_ITEMS = 4_096;
/** From this length on, `indexOf` finds the end of a string faster than a loop over its bytes. */
const LONG_TEXT_BYTES = 128;

type State =
  /** Before the outermost object. */
  | 'start'
  /** Before a key, or the end of the object. */
  | 'key'
  | 'colon'
  /** Before a value; in an array, possibly its end. */
  | 'value'
  /** After a value: before a comma or a closing bracket. */
  | 'after'
  /** In a key, or a string that is or belongs to a value. */
  | 'string'
  /** In a number or a literal. */
  | 'scalar'
  /** Between the tokens of a container that is passed over. */
  | 'skip'
  | 'end'
  /** The bytes are no JSON object. */
  | 'failed';

/** An open container of which something is wanted. */
interface Frame {
  readonly shape: Shape;
  /** The kept members; of an array, the kept items. */
  readonly result: Record<string, unknown> | PrunedItems;
  /** Set for an array. */
  readonly keeps: ItemsWanted['keeps'] | undefined;
  readonly outer: Frame | undefined;
  /** The member whose value is read, if it is wanted. */
  name: string | undefined;
}

/**
 * Reads the wanted parts of a JSON object while its bytes pass, wherever the chunks end: memory stays flat however large or
 * deeply nested it is. Of a valid object it reads what `JSON.parse` reads (the last of repeated members counts); an invalid
 * one never makes it throw.
 */
export class JsonPruner {
  readonly result: Record<string, unknown> = {};
  readonly #shape: Shape;
  #state: State = 'start';
  #frame: Frame | undefined;
  /** Open brackets of the value that is passed over. */
  #depth = 0;
  /** The string is a key of the frame. */
  #isKey = false;
  /** The next byte of the string is escaped. */
  #isEscaped = false;
  /** The key has an escape. */
  #hasEscape = false;
  /** What is wanted of the value that is read. */
  #wanted: Wanted | undefined;
  /** Where in the chunk the bytes to retain begin; -1 if none are. */
  #from = -1;
  #pieces: Buffer[] = [];
  #pieceBytes = 0;
  /** Where the chunk has its next quote and backslash, if they were looked for. */
  #nextQuote = -1;
  #nextBackslash = -1;

  constructor(shape: Shape) {
    this.#shape = shape;
  }

  /** The object is complete. */
  get isComplete(): boolean {
    return this.#state === 'end';
  }

  /** What was read so far, with what is still open. */
  get partial(): JsonRecord {
    let inner: unknown;
    for (let frame = this.#frame; frame; frame = frame.outer) {
      inner = inner === undefined ? frame.result : withOpen(frame, inner);
    }
    return (inner ?? this.result) as JsonRecord;
  }

  push(chunk: Buffer): void {
    this.#nextQuote = -1;
    this.#nextBackslash = -1;
    let at = 0;
    while (at < chunk.length && this.#state !== 'end' && this.#state !== 'failed') {
      at = this.#step(chunk, at);
    }
    if (this.#from < 0) return;
    this.#retain(chunk, chunk.length);
    this.#from = 0;
  }

  /** Reads what the state expects at `at`; returns where the next is read. */
  #step(chunk: Buffer, at: number): number {
    const state = this.#state;
    if (state === 'string') return this.#string(chunk, at);
    if (state === 'skip') return this.#skip(chunk, at);
    if (state === 'scalar') return this.#scalar(chunk, at);
    const byte = chunk[at] ?? 0;
    if (isSpace(byte)) return at + 1;
    if (state === 'value') return this.#value(at, byte);
    if (state === 'key') this.#key(at, byte);
    else if (state === 'after') this.#after(byte);
    else if (state === 'colon') this.#state = byte === COLON ? 'value' : 'failed';
    else if (byte === OPEN_OBJECT) this.#open(this.#shape, this.result, undefined);
    else this.#state = 'failed';
    return at + 1;
  }

  #open(shape: Shape, result: Frame['result'], keeps: Frame['keeps']): void {
    this.#frame = { shape, result, keeps, outer: this.#frame, name: undefined };
    this.#state = keeps ? 'value' : 'key';
  }

  /** The end of the frame: its result goes to the outer one. */
  #close(): void {
    const closed = this.#frame;
    this.#frame = closed?.outer;
    this.#state = this.#frame ? 'after' : 'end';
    if (closed && this.#frame) this.#assign(closed.result);
  }

  #assign(value: unknown): void {
    const frame = this.#frame;
    if (!frame) return;
    if (frame.result instanceof PrunedItems) {
      const { kept } = frame.result;
      const item = value as JsonRecord;
      if (frame.keeps?.(item) && kept.length < MAX_KEPT_ITEMS) kept.push(item);
    } else if (frame.name !== undefined) frame.result[frame.name] = value;
  }

  #key(at: number, byte: number): void {
    if (byte === QUOTE) {
      this.#isKey = true;
      this.#isEscaped = false;
      this.#hasEscape = false;
      this.#from = at;
      this.#state = 'string';
    } else if (byte === CLOSE_OBJECT) this.#close();
    else this.#state = 'failed';
  }

  #after(byte: number): void {
    const isArray = this.#frame?.keeps !== undefined;
    if (byte === COMMA) this.#state = isArray ? 'value' : 'key';
    else if (byte === (isArray ? CLOSE_ARRAY : CLOSE_OBJECT)) this.#close();
    else this.#state = 'failed';
  }

  #value(at: number, byte: number): number {
    const frame = this.#frame;
    if (frame?.result instanceof PrunedItems) {
      if (byte === CLOSE_ARRAY) {
        this.#close();
        return at + 1;
      }
      frame.result.count++;
      if (byte === OPEN_OBJECT) {
        this.#open(frame.shape, {}, undefined);
        return at + 1;
      }
      this.#wanted = undefined;
      return this.#plain(at, byte);
    }
    const wanted = this.#wanted;
    if (typeof wanted !== 'object') {
      if (wanted === 'value') this.#from = at;
      else if (wanted === 'presence') this.#assign(byte === LOWER_N ? undefined : true);
      return this.#plain(at, byte);
    }
    if ('members' in wanted && byte === OPEN_OBJECT) this.#open(wanted.members, {}, undefined);
    else if ('items' in wanted && byte === OPEN_ARRAY)
      this.#open(wanted.items, new PrunedItems(), wanted.keeps);
    else {
      // Of another type than is wanted.
      this.#assign(undefined);
      return this.#plain(at, byte);
    }
    return at + 1;
  }

  /** The beginning of a value that is passed over, or retained whole. */
  #plain(at: number, byte: number): number {
    this.#depth = 0;
    if (byte === QUOTE) {
      this.#isKey = false;
      this.#isEscaped = false;
      this.#state = 'string';
      return at + 1;
    }
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      this.#depth = 1;
      this.#state = 'skip';
      return at + 1;
    }
    this.#state = isScalarByte(byte) ? 'scalar' : 'failed';
    return at;
  }

  #scalar(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length && isScalarByte(chunk[at] ?? 0)) at++;
    if (at < chunk.length) this.#endValue(chunk, at);
    return at;
  }

  #skip(chunk: Buffer, from: number): number {
    let depth = this.#depth;
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      if (byte === QUOTE) {
        this.#depth = depth;
        this.#isEscaped = false;
        this.#state = 'string';
        this.#isKey = false;
        return at + 1;
      }
      // The brackets of objects are those of arrays, plus 0x20.
      if ((byte | SPACE) === OPEN_OBJECT) depth++;
      else if ((byte | SPACE) === CLOSE_OBJECT && --depth === 0) {
        this.#endValue(chunk, at + 1);
        return at + 1;
      }
    }
    this.#depth = depth;
    return chunk.length;
  }

  #string(chunk: Buffer, from: number): number {
    const end = this.#stringEnd(chunk, from);
    if (end > chunk.length) return chunk.length;
    if (this.#isKey) this.#endKey(chunk, end);
    else if (this.#depth > 0) this.#state = 'skip';
    else this.#endValue(chunk, end);
    return end;
  }

  /** After the closing quote; beyond the chunk if that is not in it. */
  #stringEnd(chunk: Buffer, from: number): number {
    const { length } = chunk;
    let at = from;
    if (this.#isEscaped) {
      this.#isEscaped = false;
      at++;
    }
    let longFrom = at + LONG_TEXT_BYTES;
    while (at < length) {
      if (at >= longFrom) {
        at = this.#plainEnd(chunk, at);
        longFrom = at + LONG_TEXT_BYTES;
        continue;
      }
      const byte = chunk[at];
      if (byte === QUOTE) return at + 1;
      if (byte === BACKSLASH) {
        this.#hasEscape = true;
        at += 2;
      } else at++;
    }
    // The chunk ends in a backslash.
    if (at > length) this.#isEscaped = true;
    return length + 1;
  }

  /** The next quote or backslash. Each byte is looked at once for each of them. */
  #plainEnd(chunk: Buffer, at: number): number {
    if (this.#nextBackslash < at) this.#nextBackslash = indexOrEnd(chunk, BACKSLASH, at);
    if (this.#nextQuote < at) this.#nextQuote = indexOrEnd(chunk, QUOTE, at);
    return Math.min(this.#nextQuote, this.#nextBackslash);
  }

  #endKey(chunk: Buffer, end: number): void {
    const frame = this.#frame;
    if (!frame) return;
    this.#state = 'colon';
    const name = this.#keyName(chunk, end, frame.shape);
    this.#wanted = name === undefined ? undefined : frame.shape.get(name);
    frame.name = this.#wanted && name;
  }

  #keyName(chunk: Buffer, end: number, wanted: Shape): string | undefined {
    const length = this.#pieceBytes + end - this.#from - 2;
    if (!this.#hasEscape && !wanted.hasLength(length)) {
      this.#drop();
      return undefined;
    }
    const text = this.#retained(chunk, end, MAX_KEY_BYTES);
    if (text === undefined || !this.#hasEscape) return text?.slice(1, -1);
    const parsed = parsedOrUndefined(text);
    return typeof parsed === 'string' ? parsed : undefined;
  }

  #endValue(chunk: Buffer, end: number): void {
    this.#state = 'after';
    if (this.#from < 0) return;
    const text = this.#retained(chunk, end, MAX_VALUE_BYTES);
    if (text === undefined) this.#assign(undefined);
    // Without escapes, what stands between the quotes is the text.
    else if (text.charCodeAt(0) === QUOTE && !text.includes('\\')) this.#assign(text.slice(1, -1));
    else this.#assign(parsedOrUndefined(text));
  }

  /** What was retained, up to `end`; undefined if that is more than `most` bytes. */
  #retained(chunk: Buffer, end: number, most: number): string | undefined {
    const from = this.#from;
    const pieces = this.#pieces;
    const before = this.#pieceBytes;
    this.#drop();
    if (before + end - from > most) return undefined;
    if (before === 0) return chunk.toString('utf8', from, end);
    return Buffer.concat([...pieces, chunk.subarray(from, end)]).toString('utf8');
  }

  #drop(): void {
    this.#from = -1;
    if (this.#pieceBytes === 0) return;
    this.#pieces = [];
    this.#pieceBytes = 0;
  }

  /** Copies what is retained of the chunk; of what is too large, only the size. */
  #retain(chunk: Buffer, end: number): void {
    this.#pieceBytes += end - this.#from;
    if (this.#pieceBytes > MAX_VALUE_BYTES) this.#pieces = [];
    else this.#pieces.push(Buffer.from(chunk.subarray(this.#from, end)));
  }
}

/** What a container would be if the value in it that is read now ended here. */
function withOpen({ result, keeps, name }: Frame, inner: unknown): Frame['result'] {
  if (!(result instanceof PrunedItems)) return name === undefined ? result : { ...result, [name]: inner };
  const items = new PrunedItems();
  items.count = result.count;
  items.kept.push(...result.kept);
  if (keeps?.(inner as JsonRecord)) items.kept.push(inner as JsonRecord);
  return items;
}

function indexOrEnd(chunk: Buffer, byte: number, from: number): number {
  const at = chunk.indexOf(byte, from);
  return at < 0 ? chunk.length : at;
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** A byte of a number, or of `true`, `false` or `null`. */
function isScalarByte(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2d ||
    byte === 0x2b ||
    byte === 0x2e ||
    byte === 0x45
  );
}
