/** A chunk from this size on is worth the call that frees it. */
const MIN_FREED_BYTES = 4 * 1024;

/**
 * The memory of one large body, which is given back when its request ends. Otherwise V8 looks through all objects once 64 MB of
 * buffers have become garbage, which took half of the time of requests of 1 MB. What may still be read then is left to V8.
 */
export class BodyMemory {
  readonly bytes: Buffer;
  #filled = 0;
  #writes = 0;
  #isShared = false;

  constructor(length: number) {
    this.bytes = Buffer.allocUnsafeSlow(length);
  }

  /** Copies a chunk, and frees it: no one else may have it. */
  add(chunk: Buffer): void {
    this.#filled += chunk.copy(this.bytes, this.#filled);
    if (chunk.length >= MIN_FREED_BYTES && chunk.length === chunk.buffer.byteLength) detach(chunk);
  }

  /** Someone may read it for as long as they like. */
  share(): void {
    this.#isShared = true;
  }

  /** The system reads it, until as many writes have ended as began. */
  beginWrite(): void {
    this.#writes++;
  }

  endWrite(): void {
    this.#writes--;
  }

  /** Gives it back, unless someone may still read it. */
  free(): void {
    if (!this.#isShared && this.#writes === 0) detach(this.bytes);
  }
}

/** Frees the memory of a buffer, which is empty from now on. Node 20 can't, and waits for V8 to collect it. */
function detach({ buffer }: Buffer): void {
  (buffer as Transferable).transfer?.(0);
}

type Transferable = ArrayBufferLike & { transfer?(bytes: number): ArrayBuffer };
