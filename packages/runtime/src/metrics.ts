import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import {
  type CostTally,
  costTallies,
  type Family,
  MAX_LABEL_SETS,
  type Spread,
  spreads,
  type Tally,
  tallies,
} from './series.ts';

/**
 * What one app counts and measures, for Prometheus. Names begin with `weighbridge_` and end in their unit; labels have few
 * values, none of them a caller's.
 */
export interface Metrics {
  /** Beyond a thousand sets of label values, what is counted goes to one of which each value is `other`. */
  counter<L extends string>(name: string, help: string, labels: readonly L[]): Count<L>;
  /** A value that is read when somebody asks. */
  gauge(name: string, help: string, read: () => number): void;
  /** Values that are read when somebody asks, one for each set of label values that there is at that time. */
  gaugeBy<L extends string>(
    name: string,
    help: string,
    labels: readonly L[],
    read: () => Iterable<readonly [labels: Readonly<Record<L, string>>, value: number]>,
  ): void;
  histogram(name: string, help: string, buckets: readonly number[]): Histogram;
  /** Counters for where each request comes by: the series of a set of label values is found once, and kept. */
  tallies(name: string, help: string, labels: readonly string[]): Family<Tally>;
  /** The same for money. */
  costTallies(name: string, help: string, labels: readonly string[]): Family<CostTally>;
  /** The same for histograms. */
  spreads(name: string, help: string, labels: readonly string[], buckets: readonly number[]): Family<Spread>;
  /** All of them, in the text format. */
  text(): Promise<string>;
  readonly contentType: string;
}

interface Count<L extends string> {
  inc(by?: number): void;
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    counter: (name, help, labels) =>
      bounded(new Counter({ name, help, labelNames: [...labels], registers }), labels),
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
    histogram: (name, help, buckets) => new Histogram({ name, help, buckets: [...buckets], registers }),
    tallies: (name, help, labels) => tallies({ registry, name, help, labels }),
    costTallies: (name, help, labels) => costTallies({ registry, name, help, labels }),
    spreads: (name, help, labels, buckets) => spreads({ registry, name, help, labels }, buckets),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

/** Operators may make connectors and policies for ever; what they are counted in must not grow as long. */
function bounded<L extends string>(counter: Counter<L>, names: readonly L[]): Count<L> {
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

/** Shows the metrics of one or several apps at `/metrics`. */
export function serveMetrics(app: FastifyInstance, metrics: Metrics): void {
  app.get('/metrics', { schema: { hide: true } as object }, async (_request, reply) =>
    reply.type(metrics.contentType).send(await metrics.text()),
  );
}
