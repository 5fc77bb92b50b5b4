import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';

/**
 * Whether calls of producers without a key, those of release 0.1.0, count without a signature: the producers are known, or one without
 * a key has an open epoch. So a new id counts only while proxies of 0.1.0 run. Given none, it is a call that names no producer.
 */
export async function countsUnsigned(db: Database, producerIds: readonly string[]): Promise<boolean> {
  const { rows } = await sql<{ counts: boolean }>`
    SELECT ${producerIds.length > 0} AND NOT EXISTS (
      SELECT FROM unnest(${arrayLiteral(producerIds)}::uuid[]) AS named (producer_id)
      WHERE NOT EXISTS (SELECT FROM producers AS known WHERE known.producer_id = named.producer_id)
    ) OR EXISTS (
      SELECT FROM producers AS live
      WHERE live.state = 'open' AND live.superseded_by IS NULL AND substr(live.producer_id::text, 15, 1) <> '8'
    ) AS counts`.execute(db);
  return rows[0]?.counts === true;
}
