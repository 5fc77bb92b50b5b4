import type { BudgetUse, LedgerState, LimitUse } from '@weighbridge/ledger';
import type { Metrics } from '@weighbridge/runtime';

/** Gauges that show the latest values read from the ledger. */
export interface LedgerGauges {
  show(state: LedgerState): void;
  /** The policies closest to their limits. */
  showBudgets(use: readonly BudgetUse[], limits: readonly LimitUse[]): void;
  showDifference(differenceNanoUsd: bigint): void;
  /** Days that are old enough to be archived, and are not. */
  showArchiveDue(days: number): void;
}

export function addLedgerGauges(metrics: Metrics): LedgerGauges {
  let state: LedgerState | undefined;
  let differenceNanoUsd = 0;
  let budgets: readonly BudgetUse[] = [];
  let limits: readonly LimitUse[] = [];
  let archiveDue = 0;
  const ofState = (name: string, help: string, read: (state: LedgerState) => number) =>
    metrics.gauge(name, help, () => (state ? read(state) : 0));

  ofState(
    'weighbridge_ledger_lag_seconds',
    'Age of the time up to which all usage is known to be in the ledger.',
    ({ asOfAgeMs }) => asOfAgeMs / 1_000,
  );
  ofState(
    'weighbridge_ledger_unmerged_seconds',
    'For how long the oldest spend has waited to be merged into its counters.',
    ({ unmergedMs }) => unmergedMs / 1_000,
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
  metrics.gaugeBy(
    'weighbridge_limit_used_ratio',
    'How much of its amount the counter of a further limit has used that spent most in the current window.',
    ['policy', 'limit'],
    () =>
      limits.map(
        ({ policyId, limitId, usedRatio }) => [{ policy: policyId, limit: limitId }, usedRatio] as const,
      ),
  );
  metrics.gauge(
    'weighbridge_ledger_difference_nano_usd',
    "Difference between buckets and the ledger's rows at the latest nightly comparison; anything but 0 is a fault.",
    () => differenceNanoUsd,
  );
  metrics.gauge(
    'weighbridge_ledger_archive_due_days',
    'Days of the ledger that are old enough to be archived and are still in Postgres.',
    () => archiveDue,
  );
  return {
    show: (latest) => {
      state = latest;
    },
    showBudgets: (latest, latestLimits) => {
      budgets = latest;
      limits = latestLimits;
    },
    showDifference: (latest) => {
      differenceNanoUsd = Number(latest);
    },
    showArchiveDue: (latest) => {
      archiveDue = latest;
    },
  };
}
