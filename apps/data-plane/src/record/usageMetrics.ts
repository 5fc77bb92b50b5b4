import type { Metrics } from '@weighbridge/runtime';
import type { Spool } from './spool/types.ts';
import type { UsageRecording } from './usageRecording.ts';

/** What there is to see of usage on its way to the ledger. */
export function registerUsageMetrics(metrics: Metrics, spool: Spool, usage: UsageRecording): void {
  metrics.gauge('weighbridge_spool_used_bytes', 'What the spool takes on disk.', () => spool.usedBytes);
  metrics.gauge('weighbridge_spool_max_bytes', 'What the spool may take on disk.', () => spool.maxBytes);
  metrics.gauge(
    'weighbridge_spool_damaged_records',
    'Places in files of earlier runs that could not be read, since the start.',
    () => spool.damagedRecords,
  );
  metrics.gauge(
    'weighbridge_usage_unconfirmed_events',
    'Events of usage that the ledger has not confirmed.',
    () => usage.unackedEvents,
  );
  metrics.gauge(
    'weighbridge_usage_mark_age_seconds',
    'How long ago it was when all that had been settled until then was in the ledger.',
    () => usage.markAgeMs() / 1_000,
  );
}
