/** A chunk below this size takes less memory as part of a shared block than as its own buffer. */
const MIN_KEPT_BYTES = 4 * 1024;
const MIN_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES = 64 * 1024;

/**
 * Collects chunks. Small ones, and views of much larger buffers, are copied into blocks: a buffer object takes more than a
 * hundred bytes, and a view retains the whole buffer, so a sender of tiny chunks could fill the memory with few bytes.
 */
export class ChunkList {
  length = 0;
  #chunks: Buffer[] = [];
  #block: Buffer | undefined;
  #blockBytes = 0;

  add(chunk: Buffer): void {
    this.length += chunk.length;
    if (chunk.length >= MIN_KEPT_BYTES && chunk.length * 2 >= chunk.buffer.byteLength) {
      this.#closeBlock();
      this.#chunks.push(chunk);
      return;
    }
    for (let at = 0; at < chunk.length; ) {
      const block = this.#block ?? this.#openBlock(chunk.length - at);
      const copied = chunk.copy(block, this.#blockBytes, at);
      at += copied;
      this.#blockBytes += copied;
      if (this.#blockBytes === block.length) this.#closeBlock();
    }
  }

  /** The bytes so far, in order. */
  get chunks(): readonly Buffer[] {
    const block = this.#block?.subarray(0, this.#blockBytes);
    return block && block.length > 0 ? [...this.#chunks, block] : this.#chunks;
  }

  clear(): void {
    this.length = 0;
    this.#chunks = [];
    this.#block = undefined;
    this.#blockBytes = 0;
  }

  /** As large as all chunks so far: their number stays logarithmic, and half of the memory is used at least. */
  #openBlock(bytes: number): Buffer {
    const size = Math.min(MAX_BLOCK_BYTES, Math.max(MIN_BLOCK_BYTES, bytes, this.length));
    this.#block = Buffer.allocUnsafe(size);
    this.#blockBytes = 0;
    return this.#block;
  }

  #closeBlock(): void {
    if (this.#block && this.#blockBytes > 0) this.#chunks.push(this.#block.subarray(0, this.#blockBytes));
    this.#block = undefined;
    this.#blockBytes = 0;
  }
}
