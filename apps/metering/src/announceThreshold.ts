import type { UsageStream } from '@weighbridge/bus';
import { microFromNano } from '@weighbridge/domain';
import type { ThresholdReached } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';

/** Announces that a counter reached a threshold, by metric, log line and event. The audit log has it too, for those that missed the event. */
export function announceThreshold(
  stream: Pick<UsageStream, 'announce'>,
  metrics: MeteringMetrics,
  logger: Logger,
  { policyId, limitId, subject, windowStart, percent, limitNanoUsd, spentNanoUsd }: ThresholdReached,
): void {
  const event = {
    policy_id: policyId,
    ...(limitId !== undefined && { limit_id: limitId }),
    subject,
    window_start: windowStart.toISOString(),
    percent,
    limit_micro_usd: microFromNano(limitNanoUsd),
    spent_micro_usd: microFromNano(spentNanoUsd),
  };
  metrics.thresholds.inc({ percent: String(percent) });
  logger.warn(event, 'budget threshold reached');
  stream.announce('budget_threshold', Buffer.from(JSON.stringify(event)));
}
