import type { FastifyInstance } from 'fastify';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/**
 * What one app counts and measures, for Prometheus. Names begin with `weighbridge_` and end in their unit; labels have few
 * values, none of them a caller's.
 */
export interface Metrics {
  counter<L extends string>(name: string, help: string, labels: readonly L[]): Counter<L>;
  /** A value that is read when somebody asks. */
  gauge(name: string, help: string, read: () => number): void;
  /** Values that are read when somebody asks, one for each value of a label that there is at that time. */
  gaugeBy(
    name: string,
    help: string,
    label: string,
    read: () => Iterable<readonly [labelValue: string, value: number]>,
  ): void;
  histogram(name: string, help: string, buckets: readonly number[]): Histogram;
  /** All of them, in the text format. */
  text(): Promise<string>;
  readonly contentType: string;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    counter: (name, help, labels) => new Counter({ name, help, labelNames: [...labels], registers }),
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
    gaugeBy(name, help, label, read) {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset();
          for (const [labelValue, value] of read()) this.set({ [label]: labelValue }, value);
        },
      });
    },
    histogram: (name, help, buckets) => new Histogram({ name, help, buckets: [...buckets], registers }),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

/** Shows the metrics of one or several apps at `/metrics`. */
export function serveMetrics(app: FastifyInstance, metrics: Metrics): void {
  app.get('/metrics', { schema: { hide: true } as object }, async (_request, reply) =>
    reply.type(metrics.contentType).send(await metrics.text()),
  );
}
