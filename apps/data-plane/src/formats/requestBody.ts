import { getDefaultHighWaterMark } from 'node:stream';
import type { BodyMemory } from './bodyMemory.ts';
import { keepLongValues } from './longValues.ts';
import type { Span } from './scanJson.ts';

/** Replaces a span of a body by a text. */
export interface Edit {
  readonly span: Span;
  readonly text: string;
}

/** Up to this size, one copy costs less than a write in pieces. */
const MAX_COPIED_BYTES = 64 * 1024;
/** The limit of the shared scratch buffer. A larger body is concatenated to be read. */
const MAX_SCRATCH_BYTES = 4 * 1024 * 1024;

/** Up to this size, what an edited body begins with goes out in one piece with its head. */
const MAX_JOINED_BYTES = 8 * 1024;
/** A socket that holds this much to write lets its writer wait until all of it is written. */
const FULL_SOCKET_BYTES = getDefaultHighWaterMark(false);

let scratch = Buffer.alloc(0);

/**
 * The body of a request, in the pieces that it arrived in or is sent in. Large bodies are copied as little as possible:
 * memory of buffers is off-heap, but allocating it triggers garbage collections, which cost more than all other work on a
 * prompt of 100 KB.
 */
export class RequestBody {
  readonly length: number;
  #pieces: readonly Buffer[];
  /** Of what the pieces are views, if it is to be given back. */
  readonly #memory: BodyMemory | undefined;

  constructor(pieces: readonly Buffer[], memory?: BodyMemory) {
    this.#pieces = pieces;
    this.#memory = memory;
    this.length = pieces.reduce((sum, { length }) => sum + length, 0);
  }

  /** Not to be retained: their memory may be given back when the request ends. */
  get pieces(): readonly Buffer[] {
    return this.#pieces;
  }

  /** Its memory has to know of a write: it goes out by `toWrite`. */
  get isOwned(): boolean {
    return this.#memory !== undefined;
  }

  /** The pieces for a socket; whoever writes them takes the next one when the socket has room for it. */
  *toWrite(): Generator<Buffer, void> {
    const memory = this.#memory;
    memory?.beginWrite();
    yield* this.#pieces;
    // Such a last piece fills the socket: it was asked for the next one once all were written, or the socket was closed.
    if ((this.#pieces.at(-1)?.length ?? 0) >= FULL_SOCKET_BYTES) memory?.endWrite();
  }

  /** The body as one buffer, which replaces the pieces, and may be retained. */
  toBuffer(): Buffer {
    this.#memory?.share();
    return this.#whole();
  }

  #whole(): Buffer {
    const [first] = this.#pieces;
    const whole = this.#pieces.length === 1 && first ? first : Buffer.concat(this.#pieces, this.length);
    if (whole !== first) this.#pieces = [whole];
    keepLongValues(whole);
    return whole;
  }

  /** Passes the bytes to `read`, which must not retain them: they are freed with the request, or the next body overwrites them. */
  read<Result>(read: (bytes: Buffer) => Result): Result {
    if (this.#pieces.length === 1 || this.length > MAX_SCRATCH_BYTES) return read(this.#whole());
    if (scratch.length < this.length) scratch = Buffer.allocUnsafeSlow(this.length);
    let at = 0;
    for (const piece of this.#pieces) at += piece.copy(scratch, at);
    return read(scratch.subarray(0, at));
  }

  /** As `read`, where others will follow: several pieces are joined once. */
  readJoined<Result>(read: (bytes: Buffer) => Result): Result {
    return read(this.#whole());
  }

  /** A copy with edits, which must not overlap. */
  withEdits(edits: readonly Edit[]): RequestBody {
    const [only] = edits;
    if (!only) return this;
    if (edits.length === 1 && this.#pieces.length === 1 && this.length <= MAX_COPIED_BYTES) {
      return new RequestBody([withEdit(this.#whole(), only)]);
    }
    const pieces: Buffer[] = [];
    let at = 0;
    for (const { span, text } of edits.toSorted(
      (a, b) => a.span.start - b.span.start || a.span.end - b.span.end,
    )) {
      this.#addViews(at, span.start, pieces);
      pieces.push(Buffer.from(text));
      at = span.end;
    }
    this.#addViews(at, this.length, pieces);
    if (this.length <= MAX_COPIED_BYTES) return new RequestBody([Buffer.concat(pieces)]);
    return new RequestBody(withJoinedStart(pieces), this.#memory);
  }

  /** Adds the bytes from `start` to `end`, as views. */
  #addViews(start: number, end: number, to: Buffer[]): void {
    let from = 0;
    for (const piece of this.#pieces) {
      const view = piece.subarray(Math.max(0, start - from), Math.max(0, end - from));
      if (view.length > 0) to.push(view);
      from += piece.length;
    }
  }
}

/** The usual case, a short body whose model has another name at its vendor, in one copy. */
function withEdit(bytes: Buffer, { span: { start, end }, text }: Edit): Buffer {
  const textBytes = Buffer.byteLength(text);
  const edited = Buffer.allocUnsafe(bytes.length - (end - start) + textBytes);
  bytes.copy(edited, 0, 0, start);
  edited.write(text, start);
  bytes.copy(edited, start + textBytes, end);
  return edited;
}

function withJoinedStart(pieces: readonly Buffer[]): readonly Buffer[] {
  let count = 0;
  let bytes = 0;
  for (const { length } of pieces) {
    if (bytes + length > MAX_JOINED_BYTES) break;
    bytes += length;
    count++;
  }
  return count < 2 ? pieces : [Buffer.concat(pieces.slice(0, count), bytes), ...pieces.slice(count)];
}
