/** Where a sent batch stands in the stream. */
export interface SentBatch {
  readonly firstN: bigint;
  readonly lastN: bigint;
  readonly sequence: bigint;
}

/** So many are kept apart; of more, neighbours are taken for one, so that memory stays flat while nothing is confirmed. */
const MAX_BATCHES = 4_096;

/**
 * The batches of one shard that the stream took and the ledger has not confirmed, by number. They all are in one stream:
 * when another takes its place, none of them counts any more.
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

  /** The highest sequence that the stream ever answered with. */
  get highestSequence(): bigint {
    return this.#highestSequence;
  }

  /** Another stream, or an older state of the same: what it once took is not there any more. */
  restart(streamId: string): void {
    this.#batches = [];
    this.#streamId = streamId;
    this.#highestSequence = 0n;
  }

  add(batch: SentBatch): void {
    if (batch.sequence > this.#highestSequence) this.#highestSequence = batch.sequence;
    // Nearly always the newest of all; one that was sent again goes to its place.
    const at = this.#batches.findLastIndex((other) => other.firstN < batch.firstN);
    this.#batches.splice(at + 1, 0, batch);
    if (this.#batches.length > MAX_BATCHES) this.#mergeNeighbours();
  }

  /** They are confirmed, or to be sent again. */
  forgetUpTo(n: bigint): void {
    const open = this.#batches.findIndex(({ lastN }) => lastN > n);
    this.#batches.splice(0, open < 0 ? this.#batches.length : open);
  }

  /** Up to which number all batches were handled by whoever reads the stream; undefined where the first one was not. */
  handledN(handledUpTo: bigint): bigint | undefined {
    const open = this.#batches.findIndex(({ sequence }) => sequence > handledUpTo);
    return (open < 0 ? this.#batches.at(-1) : this.#batches[open - 1])?.lastN;
  }

  /** Into parts of about the same size, so that none of them grows for ever: at most half as many are left as may be. */
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
        // It counts as handled when both are.
        const [later] = batch.sequence < before.sequence ? [before] : [batch];
        merged[merged.length - 1] = { ...before, lastN: batch.lastN, sequence: later.sequence };
      }
    }
    this.#batches = merged;
  }
}
