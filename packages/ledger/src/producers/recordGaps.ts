import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { recordWebhookEvents } from '../webhookEvents/webhookEvents.ts';
import { GAP_TOLERANCE_SECONDS } from './ledgerAsOf.ts';

const MAX_GAPS = 1_000;

/** Records a webhook event for each shard that has lacked a number for a while, once for each gap. */
export async function recordGaps(db: Database, now: Date): Promise<void> {
  const { rows } = await sql<{
    producer_id: string;
    epoch: string;
    shard: number;
    name: string;
    gap_since: Date;
  }>`
    SELECT producer_id, epoch, shard, name, gap_since
    FROM producer_shards JOIN producers USING (producer_id, epoch)
    WHERE gap_since < statement_timestamp() - make_interval(secs => ${GAP_TOLERANCE_SECONDS}) AND state IN ('open', 'closed')
    ORDER BY gap_since LIMIT ${MAX_GAPS}`.execute(db);
  const events = rows.map(({ producer_id, epoch, shard, name, gap_since }) => ({
    type: 'usage.gap' as const,
    onceKey: `gap/${epoch}/${shard}/${gap_since.getTime()}`,
    data: { kind: 'missing', producer_id, proxy_id: epoch, name, shard, since: gap_since.toISOString() },
  }));
  await recordWebhookEvents(db, events, now);
}
