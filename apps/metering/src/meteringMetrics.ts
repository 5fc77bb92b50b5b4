import type { BudgetUse, LedgerState } from '@weighbridge/ledger';
import type { Histogram, Metrics } from '@weighbridge/runtime';

export interface MeteringMetrics {
  readonly recorded: Count;
  readonly repeated: Count;
  readonly refused: Count;
  /** How long a batch took, from when it was there until it was in the ledger; and how many events it had. */
  readonly batchSeconds: Histogram;
  readonly batchEvents: Histogram;
  readonly failures: { inc(labels: { readonly shard: string }): void };
  readonly thresholds: { inc(labels: { readonly percent: string }): void };
  readonly upkeepFailures: { inc(labels: { readonly task: string }): void };
  /** What the latest looks at the ledger showed. */
  show(state: LedgerState): void;
  /** The policies that are nearest to their limit. */
  showBudgets(use: readonly BudgetUse[]): void;
  showDifference(differenceNanoUsd: bigint): void;
}

interface Count {
  inc(by: number): void;
}

const BATCH_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_EVENTS = [1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/** The figures of metering, as docs/metrics.md lists them. */
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
    'How old the time is up to which all usage is known to be in the ledger.',
    ({ asOfAgeMs }) => asOfAgeMs / 1_000,
  );
  ofState(
    'weighbridge_ledger_gaps',
    'Shards of producers of which usage is missing that later usage was seen of.',
    ({ gaps }) => gaps,
  );
  ofState(
    'weighbridge_ledger_longest_gap_seconds',
    'For how long the oldest of these gaps has been there.',
    ({ longestGapMs }) => longestGapMs / 1_000,
  );
  ofState(
    'weighbridge_quarantine_held',
    'Refused usage that waits for an operator.',
    ({ heldUsage }) => heldUsage,
  );
  ofState(
    'weighbridge_producers_open',
    'Epochs of spools that may still hand usage over.',
    ({ openProducers }) => openProducers,
  );
  ofState(
    'weighbridge_producers_lost',
    'Epochs of spools that nobody answers for any more.',
    ({ lostProducers }) => lostProducers,
  );
  metrics.gaugeBy(
    'weighbridge_lost_producer_seconds',
    'For how long nobody has answered for a spool.',
    ['name', 'producer_id'],
    () =>
      (state?.lost ?? []).map(
        ({ name, producerId, lostForMs }) => [{ name, producer_id: producerId }, lostForMs / 1_000] as const,
      ),
  );
  metrics.gaugeBy(
    'weighbridge_budget_used_ratio',
    'How much of its limit the fullest counter of a policy has used in its present window.',
    ['policy'],
    () => budgets.map(({ policyId, usedRatio }) => [{ policy: policyId }, usedRatio] as const),
  );
  metrics.gauge(
    'weighbridge_ledger_difference_nano_usd',
    'By how much buckets and ledger differed at the latest nightly comparison; anything but 0 is a fault.',
    () => differenceNanoUsd,
  );
  return {
    recorded: count('weighbridge_usage_recorded_total', 'Usage events that were new to the ledger.'),
    repeated: count('weighbridge_usage_repeated_total', 'Usage events that the ledger had already.'),
    refused: count('weighbridge_usage_refused_total', 'Usage events and messages that went to quarantine.'),
    batchSeconds: metrics
      .histogramFamily(
        'weighbridge_usage_batch_duration_seconds',
        'From when a batch of usage was there until it was in the ledger.',
        [],
        BATCH_SECONDS,
      )
      .of(),
    batchEvents: metrics
      .histogramFamily('weighbridge_usage_batch_events', 'How many events it had.', [], BATCH_EVENTS)
      .of(),
    failures: metrics.counter(
      'weighbridge_usage_failures_total',
      'Batches that could not be recorded and stayed in the stream.',
      ['shard'],
    ),
    thresholds: metrics.counter(
      'weighbridge_budget_thresholds_total',
      'Counters that reached a threshold of their policy, by percent of the limit.',
      ['percent'],
    ),
    upkeepFailures: metrics.counter(
      'weighbridge_ledger_upkeep_failures_total',
      'Tasks of upkeep that failed and are tried again.',
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
