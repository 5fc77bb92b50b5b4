import type { OverheadHistogram } from '@weighbridge/contracts';

/** The overhead of a proxy's requests in the last minutes, as it reported it. */
export interface ReportedOverhead {
  /** Microseconds, ascending. */
  readonly boundsUs: readonly number[];
  /** One more than the bounds. */
  readonly counts: readonly number[];
  readonly windowMs: number;
}

/** A proxy sends fewer. */
const MAX_BOUNDS = 32;

/** Undefined if the proxy reported none, or none that makes sense. */
export function reportedOverhead(reported: OverheadHistogram | undefined): ReportedOverhead | undefined {
  if (!reported) return undefined;
  const { boundsUs, counts: exact, windowMs } = reported;
  const counts = exact.map(Number);
  const isAscending = boundsUs.every((bound, at) => bound > (boundsUs[at - 1] ?? 0));
  if (!isAscending || boundsUs.length > MAX_BOUNDS || counts.length !== boundsUs.length + 1) return undefined;
  return counts.every(Number.isSafeInteger) ? { boundsUs, counts, windowMs } : undefined;
}

export interface OverheadPercentiles {
  readonly requests: number;
  readonly p50Us: number;
  readonly p95Us: number;
}

/** Adds the histograms up, and estimates percentiles of the sum; null without requests. */
export function percentilesOf(reports: readonly ReportedOverhead[]): OverheadPercentiles | null {
  const byBound = new Map<number, number>();
  for (const { boundsUs, counts } of reports) {
    for (const [at, count] of counts.entries()) {
      const bound = boundsUs[at] ?? Number.POSITIVE_INFINITY;
      byBound.set(bound, (byBound.get(bound) ?? 0) + count);
    }
  }
  const buckets = [...byBound].sort(([one], [other]) => one - other);
  const requests = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (requests === 0) return null;
  return { requests, p50Us: at(0.5 * requests, buckets), p95Us: at(0.95 * requests, buckets) };
}

/** The value of this rank: within its bucket as if they were spread evenly; above all bounds, the highest one. */
function at(rank: number, buckets: readonly (readonly [bound: number, count: number])[]): number {
  let [lower, before] = [0, 0];
  for (const [bound, count] of buckets) {
    if (before + count >= rank && count > 0) {
      return bound === Number.POSITIVE_INFINITY ? lower : lower + ((bound - lower) * (rank - before)) / count;
    }
    [lower, before] = [bound, before + count];
  }
  return lower;
}
