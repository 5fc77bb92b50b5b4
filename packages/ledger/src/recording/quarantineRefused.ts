import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import type { RefusedUsage } from '../events/usage.ts';
import { recordWebhookEvents } from '../webhookEvents/webhookEvents.ts';

/**
 * Stores refused usage, once however often it is delivered, in the transaction that records the rest of its message. A webhook
 * is told once an hour of each producer.
 */
export async function quarantineRefused(tx: Tx, refused: readonly RefusedUsage[], now: Date): Promise<void> {
  if (refused.length === 0) return;
  const rows = await tx
    .insertInto('quarantined_usage')
    .values(
      refused.map(({ kind, payload, reason, origin, principalId, sentBy }) => ({
        kind,
        payload: Buffer.from(payload),
        reason,
        producer_id: origin?.producerId ?? sentBy ?? null,
        epoch: origin?.epoch ?? null,
        shard: origin?.shard ?? null,
        n: origin?.n ?? null,
        principal_id: principalId ?? null,
        received_at: sql<Date>`statement_timestamp()`,
      })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .returning(['kind', 'reason', 'producer_id'])
    .execute();
  const hour = now.toISOString().slice(0, 'yyyy-mm-ddThh'.length);
  const producers = [...new Set(rows.map(({ producer_id }) => producer_id))];
  const events = producers.map((producerId) => {
    const entries = rows.filter(({ producer_id }) => producer_id === producerId);
    return {
      type: 'usage.quarantined' as const,
      onceKey: `${producerId ?? ''}/${hour}`,
      data: {
        producer_id: producerId,
        kind: entries[0]?.kind,
        reason: entries[0]?.reason,
        entries: entries.length,
      },
    };
  });
  await recordWebhookEvents(tx, events, now);
}
