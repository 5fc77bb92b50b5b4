/** The bytes that the buffers of all requests together may take, so that memory stays bounded under any load. */
export class BufferBudget {
  #freeBytes: number;

  constructor(bytes: number) {
    this.#freeBytes = bytes;
  }

  /** False if fewer bytes are free. What is taken must be released. */
  tryTake(bytes: number): boolean {
    if (bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  release(bytes: number): void {
    this.#freeBytes += bytes;
  }
}
