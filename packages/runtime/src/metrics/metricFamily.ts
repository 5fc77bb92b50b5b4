import type { Metric, Registry } from 'prom-client';

export interface Counter {
  /** `by` is at least 0. */
  add(by: number): void;
}

/** A counter of money: summed exactly in nano-USD, exported in US dollars. */
export interface CostCounter {
  add(nanoUsd: bigint): void;
}

export interface Histogram {
  observe(value: number): void;
}

/** All series of one metric. */
export interface Family<Series> {
  /**
   * The series of these label values, in the order of the label names. Retain it: looking it up again costs a map lookup.
   * Beyond 1,000 sets of label values, it is the set in which each value is `other`.
   */
  of(...labelValues: readonly string[]): Series;
}

/** Per metric: operators can create any number of connectors and policies. */
export const MAX_LABEL_SETS = 1_000;
const NANO_PER_USD = 1e9;

export interface FamilyOptions {
  readonly registry: Registry;
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

/**
 * prom-client looks labels up on each observation, which takes about a microsecond: too much for a request with ten
 * observations. Here a series is looked up once, and an observation is an addition.
 */
export function counterFamily(options: FamilyOptions): Family<Counter> {
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

export function costCounterFamily(options: FamilyOptions): Family<CostCounter> {
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

/** `buckets` are ascending upper bounds; `+Inf` is added. */
export function histogramFamily(options: FamilyOptions, buckets: readonly number[]): Family<Histogram> {
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
  /** Appended to the metric's name. */
  readonly suffix: string;
  readonly value: number;
  /** The upper bound, for a bucket of a histogram. */
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

interface ExportedSeries<Series> {
  readonly series: Series;
  readonly samples: () => Sample[];
}

function family<Series>(
  { registry, name, help, labels }: FamilyOptions,
  type: 'counter' | 'histogram',
  create: () => ExportedSeries<Series>,
): Family<Series> {
  const all = new Map<string, ExportedSeries<Series> & { readonly values: readonly string[] }>();
  const findOrCreate = (values: readonly string[]) => {
    const key = values.join('\0');
    const existing = all.get(key);
    if (existing) return existing;
    const created = { ...create(), values };
    all.set(key, created);
    return created;
  };
  const other = labels.map(() => 'other');
  const metric = {
    name,
    async get() {
      const values = [...all.values()].flatMap(({ samples, values: labelValues }) => {
        const set = Object.fromEntries(labels.map((label, at) => [label, labelValues[at] ?? '']));
        return samples().map(({ suffix, value, le }) => ({
          metricName: name + suffix,
          labels: le === undefined ? set : { le, ...set },
          value,
        }));
      });
      return { name, help, type, aggregator: 'sum', values };
    },
  };
  // A registry only uses a metric's `name` and `get`.
  registry.registerMetric(metric as unknown as Metric);
  if (labels.length === 0) findOrCreate([]);
  return {
    of: (...values) =>
      (all.size < MAX_LABEL_SETS || all.has(values.join('\0')) ? findOrCreate(values) : findOrCreate(other))
        .series,
  };
}
