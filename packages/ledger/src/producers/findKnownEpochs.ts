import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { EventOrigin } from '../events/usage.ts';

type Epoch = Pick<EventOrigin, 'producerId' | 'epoch'>;

/**
 * Those of the epochs whose unsigned usage counts. A producer of release 0.1.0: the epoch is registered at the control plane, or its
 * usage is in the ledger. A producer that has a key, with an id of version 8: a proxy of release 0.1.0 holds its spool, as after a
 * rollback, and has said so to the control plane; its earlier epochs count too, since that proxy sends what they left.
 */
export async function findKnownEpochs(db: Database, epochs: readonly Epoch[]): Promise<readonly Epoch[]> {
  if (epochs.length === 0) return [];
  const { rows } = await sql<{ producer_id: string; epoch: string }>`
    SELECT producer_id, epoch FROM producers
    JOIN unnest(
      ${arrayLiteral(epochs.map(({ producerId }) => producerId))}::uuid[],
      ${arrayLiteral(epochs.map(({ epoch }) => epoch))}::uuid[]
    ) AS named (producer_id, epoch) USING (producer_id, epoch)
    WHERE substr(producer_id::text, 15, 1) <> '8' OR EXISTS (
      SELECT FROM producers AS holder
      WHERE holder.producer_id = producers.producer_id AND holder.superseded_by IS NULL AND NOT holder.signs_usage
    )`.execute(db);
  return rows.map(({ producer_id, epoch }) => ({ producerId: producer_id, epoch }));
}
