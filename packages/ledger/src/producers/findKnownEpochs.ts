import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { EventOrigin } from '../events/usage.ts';

type Epoch = Pick<EventOrigin, 'producerId' | 'epoch'>;

/** Those of the epochs that a proxy registered at the control plane, or whose usage is in the ledger. */
export async function findKnownEpochs(db: Database, epochs: readonly Epoch[]): Promise<readonly Epoch[]> {
  if (epochs.length === 0) return [];
  const { rows } = await sql<{ producer_id: string; epoch: string }>`
    SELECT producer_id, epoch FROM producers
    JOIN unnest(
      ${arrayLiteral(epochs.map(({ producerId }) => producerId))}::uuid[],
      ${arrayLiteral(epochs.map(({ epoch }) => epoch))}::uuid[]
    ) AS named (producer_id, epoch) USING (producer_id, epoch)`.execute(db);
  return rows.map(({ producer_id, epoch }) => ({ producerId: producer_id, epoch }));
}
