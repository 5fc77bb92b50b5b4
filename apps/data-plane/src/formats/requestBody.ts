import type { Span } from './scanJson.ts';

/** Another text in place of what stands there. */
export interface Edit {
  readonly span: Span;
  readonly text: string;
}

/** Up to here, a copy costs less than writing a body in pieces does. */
const MAX_COPIED_BYTES = 64 * 1024;
/** Beyond it, a body is made whole to be read: so much is kept for reading. */
const MAX_SCRATCH_BYTES = 4 * 1024 * 1024;

let scratch = Buffer.alloc(0);

/**
 * A request's body, in the pieces that it came in or is sent in. A large one is copied as seldom as may be: what buffers
 * hold is not in the heap, yet every so many MiB of it make Node look through all of that, which cost more than everything
 * else that was done with a prompt of 100 KB.
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

  /** All of it in one buffer, which it keeps. */
  toBuffer(): Buffer {
    const [first] = this.#pieces;
    if (this.#pieces.length === 1 && first) return first;
    const whole = Buffer.concat(this.#pieces, this.length);
    this.#pieces = [whole];
    return whole;
  }

  /** Its bytes for `read`, which must not keep them: the next body comes to the same place. */
  read<Result>(read: (bytes: Buffer) => Result): Result {
    if (this.#pieces.length === 1 || this.length > MAX_SCRATCH_BYTES) return read(this.toBuffer());
    if (scratch.length < this.length) scratch = Buffer.allocUnsafeSlow(this.length);
    let at = 0;
    for (const piece of this.#pieces) at += piece.copy(scratch, at);
    return read(scratch.subarray(0, at));
  }

  /** The same with some texts replaced, none of which overlap; this one stays as it is. */
  withEdits(edits: readonly Edit[]): RequestBody {
    if (edits.length === 0) return this;
    const pieces: Buffer[] = [];
    let at = 0;
    for (const { span, text } of edits.toSorted((a, b) => a.span.start - b.span.start)) {
      this.#cut(at, span.start, pieces);
      pieces.push(Buffer.from(text));
      at = span.end;
    }
    this.#cut(at, this.length, pieces);
    return new RequestBody(this.length <= MAX_COPIED_BYTES ? [Buffer.concat(pieces)] : pieces);
  }

  /** Adds what is from `start` to `end`, as views. */
  #cut(start: number, end: number, to: Buffer[]): void {
    let from = 0;
    for (const piece of this.#pieces) {
      const cut = piece.subarray(Math.max(0, start - from), Math.max(0, end - from));
      if (cut.length > 0) to.push(cut);
      from += piece.length;
    }
  }
}
