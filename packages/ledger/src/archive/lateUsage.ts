import { arrayLiteral, type Tx } from '@weighbridge/database';
import { newUuid } from '@weighbridge/domain';
import { sql } from 'kysely';
import type { LedgerEvent } from '../events/usage.ts';

/** An event without a number, which could have been archived before. */
class UnnumberedLateEventError extends Error {
  override readonly name = 'UnnumberedLateEventError';
}

/**
 * Of events of days that are being archived, or are archived, those that the ledger has not recorded, each with a new id: it is a row of
 * today that was admitted on that day. What the ledger received before, by the numbers of its producer, is in the archive. Run it before
 * the transaction marks its own numbers as received.
 *
 * `isReleased`: they come from the quarantine, where they counted as received and were not recorded.
 */
export async function withLateIds<E extends LedgerEvent>(
  tx: Tx,
  events: readonly E[],
  { isReleased }: { readonly isReleased: boolean },
): Promise<E[]> {
  if (events.length === 0) return [];
  if (!isReleased && events.some(({ row }) => row.n == null)) throw new UnnumberedLateEventError();
  const renamed = events.map((event) => ({ ...event, row: { ...event.row, event_id: newUuid() } }));
  const { rows } = await sql<{ recorded_as: string }>`
    INSERT INTO late_usage (event_id, recorded_as)
    SELECT event_id, recorded_as
    FROM unnest(
      ${arrayLiteral(events.map(({ row }) => row.event_id))}::uuid[],
      ${arrayLiteral(renamed.map(({ row }) => row.event_id))}::uuid[],
      ${arrayLiteral(events.map(({ row }) => row.producer_id ?? null))}::uuid[],
      ${arrayLiteral(events.map(({ row }) => row.epoch ?? null))}::uuid[],
      ${arrayLiteral(events.map(({ row }) => row.shard ?? null))}::smallint[],
      ${arrayLiteral(events.map(({ row }) => row.n ?? null))}::bigint[]
    ) AS late (event_id, recorded_as, producer_id, epoch, shard, n)
    WHERE NOT EXISTS (SELECT FROM usage_events AS frozen WHERE frozen.event_id = late.event_id)
      AND (${isReleased} OR NOT EXISTS (
        SELECT FROM producer_shards AS known
        WHERE known.producer_id = late.producer_id AND known.epoch = late.epoch AND known.shard = late.shard
          AND known.received @> late.n
      ))
    ORDER BY event_id
    ON CONFLICT (event_id) DO NOTHING
    RETURNING recorded_as`.execute(tx);
  const added = new Set(rows.map(({ recorded_as }) => recorded_as));
  return renamed.filter(({ row }) => added.has(row.event_id));
}
