import type { MessageInitShape } from '@bufbuild/protobuf';
import type { OverheadHistogramSchema } from '@weighbridge/contracts';

/** The upper bounds of the buckets of the overhead, in seconds. */
export const OVERHEAD_SECONDS = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
];
const BOUNDS_MS = OVERHEAD_SECONDS.map((seconds) => seconds * 1_000);
const BOUNDS_US = OVERHEAD_SECONDS.map((seconds) => Math.round(seconds * 1_000_000));
const PART_MS = 60_000;
/** With the present one. */
const PARTS = 5;

interface Part {
  readonly since: number;
  readonly counts: Float64Array;
}

/** The overhead of the requests of the last five minutes, for the control plane. An observation is an addition. */
export class OverheadWindow {
  readonly #nowMs: () => number;
  #parts: readonly Part[] = [];
  #present: Part;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#present = newPart(nowMs());
  }

  observe(overheadMs: number): void {
    const { counts } = this.#present;
    let at = 0;
    while (at < BOUNDS_MS.length && overheadMs > (BOUNDS_MS[at] as number)) at++;
    counts[at] = (counts[at] as number) + 1;
  }

  /** The status asks for it each second. Without a control plane, the present part goes on, and its window says how long. */
  report(): MessageInitShape<typeof OverheadHistogramSchema> {
    const now = this.#nowMs();
    if (now - this.#present.since >= PART_MS) {
      this.#parts = [...this.#parts, this.#present].slice(1 - PARTS);
      this.#present = newPart(now);
    }
    const all = [...this.#parts, this.#present];
    return {
      boundsUs: BOUNDS_US,
      counts: Array.from({ length: BOUNDS_US.length + 1 }, (_, at) =>
        BigInt(all.reduce((sum, { counts }) => sum + (counts[at] as number), 0)),
      ),
      windowMs: Math.round(now - (all[0] as Part).since),
    };
  }
}

function newPart(since: number): Part {
  return { since, counts: new Float64Array(BOUNDS_MS.length + 1) };
}
