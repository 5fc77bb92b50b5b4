import type { BudgetUse, LedgerState } from '@weighbridge/ledger';
import type { Histogram, Metrics } from '@weighbridge/runtime';

export interface MeteringMetrics {
  readonly recorded: Count;
  readonly repeated: Count;
  readonly refused: Count;
  /** The duration of a batch, from its delivery until it is in the ledger, and the number of its events. */
  readonly batchSeconds: Histogram;
  readonly batchEvents: Histogram;
  readonly failures: { inc(labels: { readonly shard: string }): void };
  readonly thresholds: { inc(labels: { readonly percent: string }): void };
  readonly maintenanceFailures: { inc(labels: { readonly task: string }): void };
  /** Sets the latest state of the ledger. */
  show(state: LedgerState): void;
  /** Sets the policies closest to their limits. */
  showBudgets(use: readonly BudgetUse[]): void;
  showDifference(differenceNanoUsd: bigint): void;
}

interface Count {
  inc(by: number): void;
}

const BATCH_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_EVENTS = [1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/** Metering's metrics, as listed in docs/metrics.md. */
export function createMeteringMetrics(metrics: Metrics): MeteringMetrics {
  let state: LedgerState | undefined;
  let differenceNanoUsd = 0;
  let budgets: readonly BudgetUse[] = [];
  const count = (name: string, help: string): Count => {
    const counter = metrics.counter(name, help, []);
    return { inc: (by) => counter.inc(by) };
  };
  const ofState = (name: string, help: string, read: (state: LedgerState) => number) =>
    metrics.gauge(name, help, () => (state ? read(state) : 0));

  ofState(
    'weighbridge_ledger_lag_seconds',
    'Age of the time up to which all usage is known to be in the ledger.',
    ({ asOfAgeMs }) => asOfAgeMs / 1_000,
  );
  ofState(
    'weighbridge_ledger_gaps',
    'Shards of producers with a usage event missing below a received one.',
    ({ gaps }) => gaps,
  );
  ofState(
    'weighbridge_ledger_longest_gap_seconds',
    'How long the oldest of these gaps has lasted.',
    ({ longestGapMs }) => longestGapMs / 1_000,
  );
  ofState(
    'weighbridge_quarantine_held',
    'Entries in quarantine that wait for an operator.',
    ({ heldUsage }) => heldUsage,
  );
  ofState(
    'weighbridge_producers_open',
    'Epochs that may still deliver usage.',
    ({ openProducers }) => openProducers,
  );
  ofState(
    'weighbridge_producers_lost',
    'Epochs marked lost, with no sign of life from their spool.',
    ({ lostProducers }) => lostProducers,
  );
  metrics.gaugeBy(
    'weighbridge_lost_producer_seconds',
    'How long a spool has been lost.',
    ['name', 'producer_id'],
    () =>
      (state?.lost ?? []).map(
        ({ name, producerId, lostForMs }) => [{ name, producer_id: producerId }, lostForMs / 1_000] as const,
      ),
  );
  metrics.gaugeBy(
    'weighbridge_budget_used_ratio',
    "How much of its limit a policy's fullest counter has used in the current window.",
    ['policy'],
    () => budgets.map(({ policyId, usedRatio }) => [{ policy: policyId }, usedRatio] as const),
  );
  metrics.gauge(
    'weighbridge_ledger_difference_nano_usd',
    "Difference between buckets and the ledger's rows at the latest nightly comparison; anything but 0 is a fault.",
    () => differenceNanoUsd,
  );
  return {
    recorded: count('weighbridge_usage_recorded_total', 'Usage events recorded in the ledger.'),
    repeated: count(
      'weighbridge_usage_repeated_total',
      'Usage events delivered again, which the ledger already had.',
    ),
    refused: count('weighbridge_usage_refused_total', 'Usage events and messages put in quarantine.'),
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
    show: (latest) => {
      state = latest;
    },
    showBudgets: (latest) => {
      budgets = latest;
    },
    showDifference: (latest) => {
      differenceNanoUsd = Number(latest);
    },
  };
}
