import type { UsageStream } from '@weighbridge/bus';
import { microFromNano } from '@weighbridge/domain';
import type { ThresholdReached } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';

/** Tells whoever wants to know that a budget is used so far. The audit log has it too, for those that did not listen. */
export function announceThreshold(
  stream: Pick<UsageStream, 'announce'>,
  metrics: MeteringMetrics,
  logger: Logger,
  { policyId, subject, windowStart, percent, limitNanoUsd, spentNanoUsd }: ThresholdReached,
): void {
  const event = {
    policy_id: policyId,
    subject,
    window_start: windowStart.toISOString(),
    percent,
    limit_micro_usd: microFromNano(limitNanoUsd),
    spent_micro_usd: microFromNano(spentNanoUsd),
  };
  metrics.thresholds.inc({ percent: String(percent) });
  logger.warn(event, 'a budget reached a threshold');
  stream.announce('budget_threshold', Buffer.from(JSON.stringify(event)));
}
