import type { Metric, Registry } from 'prom-client';

/** A number that only grows. */
export interface Tally {
  add(by: number): void;
}

/** An amount of money that only grows, summed exactly; shown in US dollars. */
export interface CostTally {
  add(nanoUsd: bigint): void;
}

/** How values are spread. */
export interface Spread {
  observe(value: number): void;
}

/**
 * The series of one metric. `of` finds that of a set of label values, in the order of the label names; it is for callers to
 * keep. Beyond a thousand sets, it finds the one of which each value is `other`.
 */
export interface Family<Series> {
  of(...labelValues: readonly string[]): Series;
}

/** Sets of label values of one metric: operators may make connectors and policies for ever. */
export const MAX_LABEL_SETS = 1_000;
const NANO_PER_USD = 1e9;

export interface FamilyOptions {
  readonly registry: Registry;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

/**
 * What prom-client's own metrics cost for each observation, about a microsecond for looking their labels up, is too much for
 * a request that has ten of them. Here a series is found once, and observing is an addition.
 */
export function tallies(options: FamilyOptions): Family<Tally> {
  return family(options, 'counter', () => {
    let value = 0;
    return {
      series: {
        add: (by) => {
          value += by;
        },
      },
      samples: () => [{ suffix: '', value }],
    };
  });
}

export function costTallies(options: FamilyOptions): Family<CostTally> {
  return family(options, 'counter', () => {
    let sum = 0n;
    return {
      series: {
        add: (nanoUsd) => {
          sum += nanoUsd;
        },
      },
      samples: () => [{ suffix: '', value: Number(sum) / NANO_PER_USD }],
    };
  });
}

/** `buckets` are upper bounds, ascending; that without one comes by itself. */
export function spreads(options: FamilyOptions, buckets: readonly number[]): Family<Spread> {
  const bounds = Float64Array.from(buckets);
  return family(options, 'histogram', () => {
    const counts = new Float64Array(bounds.length + 1);
    let sum = 0;
    return {
      series: {
        observe: (value) => {
          let at = 0;
          while (at < bounds.length && value > (bounds[at] as number)) at++;
          counts[at] = (counts[at] as number) + 1;
          sum += value;
        },
      },
      samples: () => histogramSamples(bounds, counts, sum),
    };
  });
}

interface Sample {
  /** Behind the metric's name. */
  readonly suffix: string;
  readonly value: number;
  /** A bucket's bound. */
  readonly le?: string;
}

function histogramSamples(bounds: Float64Array, counts: Float64Array, sum: number): Sample[] {
  let total = 0;
  const buckets = [...counts].map((count, at): Sample => {
    total += count;
    return { suffix: '_bucket', value: total, le: at < bounds.length ? String(bounds[at]) : '+Inf' };
  });
  return [...buckets, { suffix: '_sum', value: sum }, { suffix: '_count', value: total }];
}

interface Shown<Series> {
  readonly series: Series;
  readonly samples: () => Sample[];
}

function family<Series>(
  { registry, name, help, labels }: FamilyOptions,
  type: 'counter' | 'histogram',
  create: () => Shown<Series>,
): Family<Series> {
  const all = new Map<string, Shown<Series> & { readonly values: readonly string[] }>();
  const find = (values: readonly string[]) => {
    const key = values.join('\0');
    const known = all.get(key);
    if (known) return known;
    const made = { ...create(), values };
    all.set(key, made);
    return made;
  };
  const other = labels.map(() => 'other');
  const metric = {
    name,
    async get() {
      const values = [...all.values()].flatMap(({ samples, values: shown }) => {
        const set = Object.fromEntries(labels.map((label, at) => [label, shown[at] ?? '']));
        return samples().map(({ suffix, value, le }) => ({
          metricName: name + suffix,
          labels: le === undefined ? set : { le, ...set },
          value,
        }));
      });
      return { name, help, type, aggregator: 'sum', values };
    },
  };
  // All that a registry asks of a metric is its name, and `get`.
  registry.registerMetric(metric as unknown as Metric);
  if (labels.length === 0) find([]);
  return {
    of: (...values) =>
      (all.size < MAX_LABEL_SETS || all.has(values.join('\0')) ? find(values) : find(other)).series,
  };
}
