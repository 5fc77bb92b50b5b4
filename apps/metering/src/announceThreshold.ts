import type { UsageStream } from '@weighbridge/bus';
import { amountFields, type ThresholdReached } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';

/** Announces that a counter reached a threshold, by metric, log line and event. The audit log has it too, for those that missed the event. */
export function announceThreshold(
  stream: Pick<UsageStream, 'announce'>,
  metrics: MeteringMetrics,
  logger: Logger,
  { policyId, limitId, unit, subject, windowStart, percent, limit, spent }: ThresholdReached,
): void {
  const event = {
    policy_id: policyId,
    ...(limitId !== undefined && { limit_id: limitId }),
    subject,
    window_start: windowStart.toISOString(),
    percent,
    ...amountFields(unit, { limit, spent }),
  };
  metrics.thresholds.inc({ percent: String(percent) });
  logger.warn(event, 'budget threshold reached');
  stream.announce('budget_threshold', Buffer.from(JSON.stringify(event)));
}
