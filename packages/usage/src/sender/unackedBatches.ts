/** A sent batch and its position in the stream. */
export interface SentBatch {
  readonly firstN: bigint;
  readonly lastN: bigint;
  readonly sequence: bigint;
}

/** Beyond this, neighbours are merged, so that memory stays flat while nothing is acked. */
const MAX_BATCHES = 4_096;

/**
 * The batches of one shard that the stream stored and the ledger has not acked, by number. All are in one stream: when
 * another takes its place, none of them counts any more.
 */
export class UnackedBatches {
  #batches: SentBatch[] = [];
  #streamId: string | undefined;
  #highestSequence = 0n;

  get size(): number {
    return this.#batches.length;
  }

  get streamId(): string | undefined {
    return this.#streamId;
  }

  /** The highest sequence that the stream ever returned. */
  get highestSequence(): bigint {
    return this.#highestSequence;
  }

  /** Forgets all batches: the stream is another one, or was restored from an older state. */
  restart(streamId: string): void {
    this.#batches = [];
    this.#streamId = streamId;
    this.#highestSequence = 0n;
  }

  add(batch: SentBatch): void {
    if (batch.sequence > this.#highestSequence) this.#highestSequence = batch.sequence;
    // Nearly always the last; a resent batch goes to its place by number.
    const at = this.#batches.findLastIndex((other) => other.firstN < batch.firstN);
    this.#batches.splice(at + 1, 0, batch);
    if (this.#batches.length > MAX_BATCHES) this.#mergeNeighbours();
  }

  /** Batches up to `n` are acked, or will be resent. */
  forgetUpTo(n: bigint): void {
    const open = this.#batches.findIndex(({ lastN }) => lastN > n);
    this.#batches.splice(0, open < 0 ? this.#batches.length : open);
  }

  /**
   * The number up to which the stream's reader has handled all batches, given the sequence up to which it has handled
   * messages; undefined if the first batch is not handled.
   */
  handledN(handledUpTo: bigint): bigint | undefined {
    const open = this.#batches.findIndex(({ sequence }) => sequence > handledUpTo);
    return (open < 0 ? this.#batches.at(-1) : this.#batches[open - 1])?.lastN;
  }

  /** Merges into ranges of about equal size, so that none grows without bound; at most half of MAX_BATCHES remain. */
  #mergeNeighbours(): void {
    const [first] = this.#batches;
    const last = this.#batches.at(-1);
    if (!first || !last) return;
    const size = (4n * (last.lastN - first.firstN)) / BigInt(MAX_BATCHES);
    const merged: SentBatch[] = [first];
    for (const batch of this.#batches.slice(1)) {
      const before = merged.at(-1);
      if (!before || batch.lastN - before.firstN > size) merged.push(batch);
      else {
        // A merged range counts as handled when both parts are.
        const [later] = batch.sequence < before.sequence ? [before] : [batch];
        merged[merged.length - 1] = { ...before, lastN: batch.lastN, sequence: later.sequence };
      }
    }
    this.#batches = merged;
  }
}
