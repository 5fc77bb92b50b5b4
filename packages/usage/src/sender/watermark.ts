import type { SpoolEpoch } from '../spool/types.ts';

/** Beyond this, older samples are thinned out, so that memory stays flat while nothing is acked. */
const MAX_SAMPLES = 1_024;

/** What had been settled at a moment. */
interface Sample {
  readonly atMs: number;
  readonly lastN: readonly bigint[];
}

/**
 * The latest moment up to which everything that a proxy settled is in the ledger. It samples at each `ageMs`, so it must
 * be read regularly. All times are the caller's, monotonic.
 */
export class Watermark {
  readonly #epoch: Pick<SpoolEpoch, 'shards' | 'lastN' | 'ackedN'>;
  #samples: Sample[];

  constructor(epoch: Pick<SpoolEpoch, 'shards' | 'lastN' | 'ackedN'>, nowMs: number) {
    this.#epoch = epoch;
    this.#samples = [{ atMs: nowMs, lastN: this.#lastN() }];
  }

  /** How long ago that moment was, in milliseconds; 0 if everything is in the ledger. */
  ageMs(nowMs: number): number {
    this.#samples.push({ atMs: nowMs, lastN: this.#lastN() });
    const newest = this.#samples.findLastIndex(({ lastN }) => this.#isAcked(lastN));
    if (newest > 0) this.#samples.splice(0, newest);
    const watermarkMs = this.#samples[0]?.atMs ?? nowMs;
    if (this.#samples.length > MAX_SAMPLES) this.#thinOut((2 * (nowMs - watermarkMs)) / MAX_SAMPLES);
    return Math.max(0, nowMs - watermarkMs);
  }

  /** Leaves samples at least this far apart. The first, which is the watermark, stays. */
  #thinOut(apartMs: number): void {
    let previousMs = Number.NEGATIVE_INFINITY;
    this.#samples = this.#samples.filter(({ atMs }) => {
      const stays = atMs - previousMs >= apartMs;
      if (stays) previousMs = atMs;
      return stays;
    });
  }

  #lastN(): readonly bigint[] {
    return Array.from({ length: this.#epoch.shards }, (_, shard) => this.#epoch.lastN(shard));
  }

  #isAcked(lastN: readonly bigint[]): boolean {
    return lastN.every((n, shard) => n <= this.#epoch.ackedN(shard));
  }
}
