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

let scratch = Buffer.alloc(0);

/**
 * The body of a request, in the pieces that it arrived in or is sent in. Large bodies are copied as little as possible:
 * memory of buffers is off-heap, but allocating it triggers garbage collections, which cost more than all other work on a
 * prompt of 100 KB.
 */
export class RequestBody {
  readonly length: number;
  #pieces: readonly Buffer[];

  constructor(pieces: readonly Buffer[]) {
    this.#pieces = pieces;
    this.length = pieces.reduce((sum, { length }) => sum + length, 0);
  }

  get pieces(): readonly Buffer[] {
    return this.#pieces;
  }

  /** The body as one buffer, which replaces the pieces. */
  toBuffer(): Buffer {
    const [first] = this.#pieces;
    if (this.#pieces.length === 1 && first) return first;
    const joined = Buffer.concat(this.#pieces, this.length);
    this.#pieces = [joined];
    return joined;
  }

  /** Passes the bytes to `read`, which must not retain them: the next body overwrites them. */
  read<Result>(read: (bytes: Buffer) => Result): Result {
    if (this.#pieces.length === 1 || this.length > MAX_SCRATCH_BYTES) return read(this.toBuffer());
    if (scratch.length < this.length) scratch = Buffer.allocUnsafeSlow(this.length);
    let at = 0;
    for (const piece of this.#pieces) at += piece.copy(scratch, at);
    return read(scratch.subarray(0, at));
  }

  /** A copy with edits, which must not overlap. */
  withEdits(edits: readonly Edit[]): RequestBody {
    if (edits.length === 0) return this;
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
    return new RequestBody(this.length <= MAX_COPIED_BYTES ? [Buffer.concat(pieces)] : pieces);
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
