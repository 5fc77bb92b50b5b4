/** Where a body comes from. */
export interface BodySource {
  pause(): void;
  resume(): void;
  /** Ends it: nothing more comes. */
  abort(reason: Error): void;
}

/** Takes a chunk; a promise where it has to catch up before the next one. */
type Take = (chunk: Buffer) => Promise<void> | undefined;

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
  /** Undefined until somebody takes it, and from the end on. */
  #take: Take | undefined;
  #isWaiting = false;
  #resolve: () => void = () => {};
  #reject: (error: unknown) => void = () => {};

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
   * Hands each chunk on as it comes, one after the other: where `take` returns a promise, the next one waits for it. Resolves
   * at the end. Rejects where the body broke off, once all that came was taken, and where `take` fails. To be called once.
   */
  each(take: Take): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#take = take;
      this.#resolve = resolve;
      this.#reject = reject;
      this.#flow();
    });
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
    // What most chunks find: all before them was taken.
    if (this.#take && this.#hasTakenAll) {
      this.#hand(this.#take, chunk);
      return;
    }
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
    if (this.#take) this.#flow();
  }

  /** Hands on what is here, as far as its taker does not have it wait. */
  #flow(): void {
    while (this.#take && !this.#isWaiting) {
      const chunk = this.#chunks.shift();
      if (!chunk) break;
      this.#bytes -= chunk.length;
      this.#hand(this.#take, chunk);
    }
    if (this.#isPaused && !this.#isOver && this.#hasTakenAll) {
      this.#isPaused = false;
      // Which may bring more at once, and its end.
      this.#source.resume();
    }
    if (this.#take && this.#isOver && this.#hasTakenAll) this.#settle(this.#error);
  }

  get #hasTakenAll(): boolean {
    return !this.#isWaiting && this.#chunks.length === 0;
  }

  #hand(take: Take, chunk: Buffer): void {
    let caughtUp: Promise<void> | undefined;
    try {
      caughtUp = take(chunk);
    } catch (error) {
      this.#settle(error);
      return;
    }
    if (!caughtUp) return;
    this.#isWaiting = true;
    const goOn = () => {
      this.#isWaiting = false;
      this.#flow();
    };
    caughtUp.then(goOn, (error) => this.#settle(error));
  }

  #settle(error: unknown): void {
    this.#take = undefined;
    if (error === undefined) this.#resolve();
    else this.#reject(error);
  }
}
