import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import type { RefusedUsage } from '../events/usage.ts';

/** Stores refused usage, once however often it is delivered, in the transaction that records the rest of its message. */
export async function quarantineRefused(tx: Tx, refused: readonly RefusedUsage[]): Promise<void> {
  if (refused.length === 0) return;
  await tx
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
    .execute();
}
