import { Gauge, Counter as PromCounter, Registry } from 'prom-client';
import {
  type CostCounter,
  type Counter,
  costCounterFamily,
  counterFamily,
  type Family,
  type Histogram,
  histogramFamily,
  MAX_LABEL_SETS,
} from './metricFamily.ts';

/**
 * The Prometheus metrics of one app. A name begins with `weighbridge_` and ends in its unit. A label has few values, and
 * none that a client chooses.
 */
export interface Metrics {
  /** Beyond 1,000 sets of label values, counts go to the set in which each value is `other`. */
  counter<L extends string>(name: string, help: string, labels: readonly L[]): LabelledCounter<L>;
  /** A value that is read at each scrape. */
  gauge(name: string, help: string, read: () => number): void;
  /** Values that are read at each scrape, one for each set of label values that exists then. */
  gaugeBy<L extends string>(
    name: string,
    help: string,
    labels: readonly L[],
    read: () => Iterable<readonly [labels: Readonly<Record<L, string>>, value: number]>,
  ): void;
  /** Counters for the hot path: look a series up once with `of`, then retain it. */
  counterFamily(name: string, help: string, labels: readonly string[]): Family<Counter>;
  /** Like `counterFamily`, for money. */
  costCounterFamily(name: string, help: string, labels: readonly string[]): Family<CostCounter>;
  /** Like `counterFamily`, for histograms. `buckets` are ascending upper bounds; `+Inf` is added. */
  histogramFamily(
    name: string,
    help: string,
    labels: readonly string[],
    buckets: readonly number[],
  ): Family<Histogram>;
  /** All metrics, in the Prometheus text format. */
  text(): Promise<string>;
  readonly contentType: string;
}

interface LabelledCounter<L extends string> {
  inc(by?: number): void;
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    counter: (name, help, labels) =>
      bounded(new PromCounter({ name, help, labelNames: [...labels], registers }), labels),
    gauge(name, help, read) {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    },
    gaugeBy(name, help, labels, read) {
      new Gauge({
        name,
        help,
        labelNames: [...labels],
        registers,
        collect() {
          this.reset();
          for (const [set, value] of read()) this.set(set, value);
        },
      });
    },
    counterFamily: (name, help, labels) => counterFamily({ registry, name, help, labels }),
    costCounterFamily: (name, help, labels) => costCounterFamily({ registry, name, help, labels }),
    histogramFamily: (name, help, labels, buckets) =>
      histogramFamily({ registry, name, help, labels }, buckets),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

/** Operators can create any number of connectors and policies; the number of series must stay bounded. */
function bounded<L extends string>(counter: PromCounter<L>, names: readonly L[]): LabelledCounter<L> {
  const known = new Set<string>();
  const other = Object.fromEntries(names.map((name) => [name, 'other'])) as Record<L, string>;
  const inc = (labels: number | Readonly<Record<L, string>> = 1, by = 1): void => {
    if (typeof labels === 'number') {
      counter.inc(labels);
      return;
    }
    const key = names.map((name) => labels[name]).join('\0');
    if (known.size < MAX_LABEL_SETS) known.add(key);
    counter.inc(known.has(key) ? labels : other, by);
  };
  return { inc };
}
