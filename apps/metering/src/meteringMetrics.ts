import type { Histogram, Metrics } from '@weighbridge/runtime';
import { addLedgerGauges, type LedgerGauges } from './ledgerGauges.ts';

export interface MeteringMetrics extends LedgerGauges {
  readonly recorded: Count;
  readonly repeated: Count;
  readonly refused: Count;
  /** Messages that were not sent by the producer that they name. */
  readonly forged: Count;
  /** Rows of refused requests that proxies sent. */
  readonly refusals: Count;
  /** The duration of a batch, from its delivery until it is in the ledger, and the number of its events. */
  readonly batchSeconds: Histogram;
  readonly batchEvents: Histogram;
  /** How many shards are read here. */
  readonly shards: { read: number };
  readonly failures: { inc(labels: { readonly shard: string }): void };
  readonly thresholds: { inc(labels: { readonly percent: string }): void };
  readonly maintenanceFailures: { inc(labels: { readonly task: string }): void };
}

interface Count {
  inc(by: number): void;
}

const BATCH_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_EVENTS = [1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/** Metering's metrics, as listed in docs/metrics.md. */
export function createMeteringMetrics(metrics: Metrics): MeteringMetrics {
  const gauges = addLedgerGauges(metrics);
  const count = (name: string, help: string): Count => {
    const counter = metrics.counter(name, help, []);
    return { inc: (by) => counter.inc(by) };
  };
  const shards = { read: 0 };
  metrics.gauge(
    'weighbridge_usage_shards',
    'Shards of the usage stream that this worker reads.',
    () => shards.read,
  );
  return {
    ...gauges,
    shards,
    recorded: count('weighbridge_usage_recorded_total', 'Usage events recorded in the ledger.'),
    repeated: count(
      'weighbridge_usage_repeated_total',
      'Usage events delivered again, which the ledger already had.',
    ),
    refused: count('weighbridge_usage_refused_total', 'Usage events and messages put in quarantine.'),
    forged: count(
      'weighbridge_usage_forged_total',
      'Messages of the usage stream without the signature of the producer that they name; nothing of them is recorded.',
    ),
    refusals: count(
      'weighbridge_refusals_recorded_total',
      'Rows of refused requests from proxies; what is beyond the limit of a key is counted in one row.',
    ),
    batchSeconds: metrics
      .histogramFamily(
        'weighbridge_usage_batch_duration_seconds',
        'Duration of a usage batch, from its delivery until it is in the ledger.',
        [],
        BATCH_SECONDS,
      )
      .of(),
    batchEvents: metrics
      .histogramFamily('weighbridge_usage_batch_events', 'Events per usage batch.', [], BATCH_EVENTS)
      .of(),
    failures: metrics.counter(
      'weighbridge_usage_failures_total',
      'Usage batches that could not be recorded and stayed in the stream.',
      ['shard'],
    ),
    thresholds: metrics.counter(
      'weighbridge_budget_thresholds_total',
      'Counters that reached a threshold of their policy, by percent of the limit.',
      ['percent'],
    ),
    maintenanceFailures: metrics.counter(
      'weighbridge_ledger_upkeep_failures_total',
      'Maintenance tasks that failed; they are retried.',
      ['task'],
    ),
  };
}
