import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { SpoolEpoch } from '../spool/types.ts';

/** So many looks are kept; of more, fewer of any time, so that memory stays flat while nothing is confirmed. */
const MAX_LOOKS = 1_024;

/** What had been settled by a moment. */
interface Look {
  readonly atMs: number;
  readonly lastN: readonly bigint[];
}

/**
 * Tells up to which moment all that a proxy had settled is in the ledger. It knows of the moments at which it was asked,
 * so it is asked from time to time. Times are the caller's, monotonic.
 */
export class Watermark {
  readonly #epoch: Pick<SpoolEpoch, 'lastN' | 'ackedN'>;
  #looks: Look[];

  constructor(epoch: Pick<SpoolEpoch, 'lastN' | 'ackedN'>, nowMs: number) {
    this.#epoch = epoch;
    this.#looks = [{ atMs: nowMs, lastN: this.#lastN() }];
  }

  /** How long ago that moment was, in milliseconds; 0 where everything is there. */
  ageMs(nowMs: number): number {
    this.#looks.push({ atMs: nowMs, lastN: this.#lastN() });
    const newest = this.#looks.findLastIndex(({ lastN }) => this.#isAcked(lastN));
    if (newest > 0) this.#looks.splice(0, newest);
    const markMs = this.#looks[0]?.atMs ?? nowMs;
    if (this.#looks.length > MAX_LOOKS) this.#thinOut((2 * (nowMs - markMs)) / MAX_LOOKS);
    return Math.max(0, nowMs - markMs);
  }

  /** Leaves so much time between them, and the first, which is the mark. */
  #thinOut(apartMs: number): void {
    let keptMs = Number.NEGATIVE_INFINITY;
    this.#looks = this.#looks.filter(({ atMs }) => {
      const isKept = atMs - keptMs >= apartMs;
      if (isKept) keptMs = atMs;
      return isKept;
    });
  }

  #lastN(): readonly bigint[] {
    return Array.from({ length: USAGE_SHARDS }, (_, shard) => this.#epoch.lastN(shard));
  }

  #isAcked(lastN: readonly bigint[]): boolean {
    return lastN.every((n, shard) => n <= this.#epoch.ackedN(shard));
  }
}
