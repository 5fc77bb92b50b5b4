/** Cumulative counts of a Prometheus histogram by their upper bound; the last bound is infinite. */
export type Buckets = ReadonlyMap<number, number>;

/** Reads a histogram from a metrics page, summed over its label values. */
export function parseHistogram(page: string, name: string): Buckets {
  const buckets = new Map<number, number>();
  for (const [, bound = '', count] of page.matchAll(
    new RegExp(`^${name}_bucket\\{[^}]*le="([^"]+)"[^}]*\\} (\\d+)$`, 'gm'),
  )) {
    const upTo = bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound);
    buckets.set(upTo, (buckets.get(upTo) ?? 0) + Number(count));
  }
  return buckets;
}

/**
 * The quantile of what was added between two readings, by linear interpolation within its bucket, as Prometheus does;
 * undefined if nothing was. What lies beyond the last finite bound counts as that bound.
 */
export function quantileBetween(before: Buckets, after: Buckets, share: number): number | undefined {
  const added = [...after]
    .map(([bound, count]) => ({ bound, count: count - (before.get(bound) ?? 0) }))
    .sort((a, b) => a.bound - b.bound);
  const rank = (added.at(-1)?.count ?? 0) * share;
  if (rank === 0) return undefined;
  let [low, below] = [0, 0];
  for (const { bound, count } of added) {
    if (count < rank) [low, below] = [bound, count];
    else
      return bound === Number.POSITIVE_INFINITY
        ? low
        : low + ((bound - low) * (rank - below)) / (count - below);
  }
  return low;
}
