import type { Metrics } from '@weighbridge/runtime';
import type { Spool } from './spool/types.ts';
import type { UsageRecording } from './usageRecording.ts';

/** Registers the metrics of the spool and of usage on its way to the ledger. */
export function addUsageMetrics(metrics: Metrics, spool: Spool, usage: UsageRecording): void {
  metrics.gauge('weighbridge_spool_used_bytes', 'Bytes of the spool on disk.', () => spool.usedBytes);
  metrics.gauge('weighbridge_spool_max_bytes', 'The most bytes the spool may take.', () => spool.maxBytes);
  metrics.gauge(
    'weighbridge_spool_damaged_records',
    'Unreadable places found in spool files of earlier runs since the start.',
    () => spool.damagedRecords,
  );
  metrics.gauge(
    'weighbridge_usage_unconfirmed_events',
    'Usage events that the ledger has not acked.',
    () => usage.unackedEvents,
  );
  metrics.gauge(
    'weighbridge_usage_mark_age_seconds',
    'Age of the watermark: the latest moment up to which all settled usage is in the ledger.',
    () => usage.watermarkAgeMs() / 1_000,
  );
}
