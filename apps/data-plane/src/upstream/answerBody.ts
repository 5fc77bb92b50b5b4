/** Where a body comes from. */
export interface BodySource {
  pause(): void;
  resume(): void;
  /** Ends it: nothing more comes. */
  abort(reason: Error): void;
}

/** What is read ahead of its reader, before its source has to wait: with thousands of slow callers this adds up. */
const READ_AHEAD_BYTES = 16 * 1024;

/**
 * The body of an answer as it comes, for one reader. A stream of Node's can do more, and costs several times as much for
 * each answer and each chunk (docs/benchmarks.md).
 */
export class AnswerBody {
  readonly #source: BodySource;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isPaused = false;
  #isOver = false;
  #error: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(source: BodySource) {
    this.#source = source;
  }

  /** One that is here already. */
  static of(bytes: Buffer): AnswerBody {
    const body = new AnswerBody({ pause() {}, resume() {}, abort() {} });
    if (bytes.length > 0) body.push(bytes);
    body.end();
    return body;
  }

  /**
   * The next chunk; undefined at the end. A promise only where it has to be waited for. Throws, or rejects, where the body
   * broke off, once all that came was read.
   */
  read(): Buffer | undefined | Promise<Buffer | undefined> {
    const chunk = this.#chunks.shift();
    if (chunk) {
      this.#bytes -= chunk.length;
      if (this.#isPaused && this.#chunks.length === 0) {
        this.#isPaused = false;
        this.#source.resume();
      }
      return chunk;
    }
    if (this.#error) throw this.#error;
    if (this.#isOver) return undefined;
    return this.#news().then(() => this.read());
  }

  /** Resolves once something of it is there, or its end; undefined where that is so already. Rejects where it breaks off. */
  begun(): Promise<void> | undefined {
    if (this.#chunks.length > 0) return undefined;
    if (this.#error) return Promise.reject(this.#error);
    return this.#isOver ? undefined : this.#news().then(() => this.begun());
  }

  /** Nobody reads it any further. */
  destroy(): void {
    this.#chunks = [];
    this.#bytes = 0;
    if (this.#isOver) return;
    const reason = new Error('the answer is not read any further');
    this.fail(reason);
    this.#source.abort(reason);
  }

  /** By its source. */
  push(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes >= READ_AHEAD_BYTES && !this.#isPaused) {
      this.#isPaused = true;
      this.#source.pause();
    }
    this.#tell();
  }

  /** By its source: that was all. */
  end(): void {
    this.#isOver = true;
    this.#tell();
  }

  /** By its source: it broke off. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    this.#tell();
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #tell(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
