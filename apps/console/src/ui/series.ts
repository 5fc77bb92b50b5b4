/** A sum of one series at one time. */
export interface Sum {
  readonly at: string;
  readonly series: string;
  readonly value: number;
}

/** What all series have at one time; a series without a sum there has 0. */
export interface Point {
  readonly at: string;
  readonly values: readonly number[];
}

export interface Chart {
  /** The largest first; `others`, if there is one, last. */
  readonly series: readonly string[];
  readonly points: readonly Point[];
}

const STEP_MS = { hour: 3_600_000, day: 86_400_000 } as const;
export type Bucket = 'hour' | 'day' | 'month';

/** The times of buckets between two, with those in which nothing happened. */
function times(given: readonly string[], bucket: Bucket): string[] {
  const sorted = [...new Set(given)].sort();
  const [first] = sorted;
  const last = sorted.at(-1);
  if (bucket === 'month' || first === undefined || last === undefined) return sorted;
  const count = Math.round((Date.parse(last) - Date.parse(first)) / STEP_MS[bucket]) + 1;
  return Array.from({ length: count }, (_, i) =>
    new Date(Date.parse(first) + i * STEP_MS[bucket]).toISOString(),
  );
}

/** Arranges sums for a chart; `cumulative` adds up what came before. */
export function arrange(
  sums: readonly Sum[],
  { bucket, cumulative, others }: { bucket: Bucket; cumulative: boolean; others: string },
): Chart {
  const totals = new Map<string, number>();
  const byTime = new Map<string, Map<string, number>>();
  for (const { at, series, value } of sums) {
    const time = new Date(at).toISOString();
    totals.set(series, (totals.get(series) ?? 0) + value);
    const there = byTime.get(time) ?? new Map<string, number>();
    byTime.set(time, there.set(series, (there.get(series) ?? 0) + value));
  }
  const rank = (series: string) => (series === others ? -1 : (totals.get(series) ?? 0));
  const series = [...totals.keys()].sort((one, other) => rank(other) - rank(one));
  const sofar = series.map(() => 0);
  const points = times([...byTime.keys()], bucket).map((at) => {
    const values = series.map((name, i) => {
      const value = byTime.get(at)?.get(name) ?? 0;
      if (!cumulative) return value;
      sofar[i] = (sofar[i] ?? 0) + value;
      return sofar[i];
    });
    return { at, values };
  });
  return { series, points };
}

const COLORS = 6;

/** The colour of a series: of styles/base.css, the last one for all that follow. */
export function colorOf(i: number): string {
  return `var(--chart-${Math.min(i, COLORS - 1)})`;
}
