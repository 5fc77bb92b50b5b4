/** The connection that a body is read from. */
export interface BodySource {
  pause(): void;
  resume(): void;
  /** Ends the response: nothing more comes. */
  abort(reason: Error): void;
}

/** Takes a chunk; returns a promise if the next chunk has to wait. */
type ChunkHandler = (chunk: Buffer) => Promise<void> | undefined;

/** Read ahead before the source is paused: small, since it adds up over thousands of slow clients. */
const READ_AHEAD_BYTES = 16 * 1024;

/**
 * The body of a response as it arrives, for one reader. A Node stream costs several times as much per response and per
 * chunk (docs/benchmarks.md).
 */
export class ResponseBody {
  readonly #source: BodySource;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isPaused = false;
  #isOver = false;
  #error: Error | undefined;
  #notify: (() => void) | undefined;
  /** Undefined before `forEachChunk`, and after the end. */
  #handle: ChunkHandler | undefined;
  #isHandling = false;
  /** Why reading ended before the end of the body. */
  #failure: unknown;
  #resolve: () => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(source: BodySource) {
    this.#source = source;
  }

  /** A body that is complete already. */
  static of(bytes: Buffer): ResponseBody {
    const body = new ResponseBody({ pause() {}, resume() {}, abort() {} });
    if (bytes.length > 0) body.push(bytes);
    body.end();
    return body;
  }

  /**
   * Passes the chunks to `handle`, one at a time. Resolves at the end of the body; undefined if all of it is here, and handled.
   * Rejects if the body breaks off, after the chunks that arrived were handled, and if `handle` fails. To be called once.
   */
  forEachChunk(handle: ChunkHandler): Promise<void> | undefined {
    this.#handle = handle;
    this.#flow();
    if (!this.#handle) return this.#failure === undefined ? undefined : Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /**
   * Resolves once the first chunk, or the end, has arrived; undefined if it has already. Rejects if the body breaks
   * off before.
   */
  started(): Promise<void> | undefined {
    if (this.#chunks.length > 0) return undefined;
    if (this.#error) return Promise.reject(this.#error);
    return this.#isOver ? undefined : this.#nextEvent().then(() => this.started());
  }

  /** What has arrived, without taking it: once that is all, fills the read-ahead, or `maxMs` are over. Call it first. */
  async peek(maxMs: number): Promise<Buffer> {
    const deadline = performance.now() + maxMs;
    for (let left = maxMs; left > 0 && !this.#isOver && this.#bytes < READ_AHEAD_BYTES; ) {
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, left);
      });
      await Promise.race([this.#nextEvent(), timeout]);
      clearTimeout(timer);
      left = deadline - performance.now();
    }
    return Buffer.concat(this.#chunks);
  }

  /** Discards the rest of the body. */
  destroy(): void {
    this.#chunks = [];
    this.#bytes = 0;
    if (this.#isOver) return;
    const reason = new Error('the rest of the response was discarded');
    this.fail(reason);
    this.#source.abort(reason);
  }

  /** Called by the source. */
  push(chunk: Buffer): void {
    if (this.#isOver) return;
    // The common case: all earlier chunks are handled.
    if (this.#handle && this.#isDrained) {
      this.#pass(this.#handle, chunk);
      return;
    }
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes >= READ_AHEAD_BYTES && !this.#isPaused) {
      this.#isPaused = true;
      this.#source.pause();
    }
    this.#changed();
  }

  /** Called by the source: the body is complete. */
  end(): void {
    this.#isOver = true;
    this.#changed();
  }

  /** Called by the source: the body broke off. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    this.#changed();
  }

  #nextEvent(): Promise<void> {
    return new Promise((resolve) => {
      this.#notify = resolve;
    });
  }

  #changed(): void {
    const notify = this.#notify;
    this.#notify = undefined;
    notify?.();
    if (this.#handle) this.#flow();
  }

  /** Passes on the buffered chunks until the handler makes the next one wait. */
  #flow(): void {
    while (this.#handle && !this.#isHandling) {
      const chunk = this.#chunks.shift();
      if (!chunk) break;
      this.#bytes -= chunk.length;
      this.#pass(this.#handle, chunk);
    }
    if (this.#isPaused && !this.#isOver && this.#isDrained) {
      this.#isPaused = false;
      // May push chunks, and the end, before it returns.
      this.#source.resume();
    }
    if (this.#handle && this.#isOver && this.#isDrained) this.#finish(this.#error);
  }

  get #isDrained(): boolean {
    return !this.#isHandling && this.#chunks.length === 0;
  }

  #pass(handle: ChunkHandler, chunk: Buffer): void {
    let handled: Promise<void> | undefined;
    try {
      handled = handle(chunk);
    } catch (error) {
      this.#finish(error);
      return;
    }
    if (!handled) return;
    this.#isHandling = true;
    const goOn = () => {
      this.#isHandling = false;
      this.#flow();
    };
    handled.then(goOn, (error) => this.#finish(error));
  }

  #finish(error: unknown): void {
    this.#handle = undefined;
    this.#failure = error;
    if (error === undefined) this.#resolve();
    else this.#reject(error);
  }
}
