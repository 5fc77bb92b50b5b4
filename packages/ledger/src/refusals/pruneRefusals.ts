import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

const ROWS_AT_A_TIME = 5_000;
const MAX_ROUNDS = 400;

/** Deletes old rows, in short transactions; what is left after many is for the next time. Returns how many. */
export async function pruneRefusals(
  db: Database,
  { refusedBefore }: { readonly refusedBefore: Date },
): Promise<number> {
  let deleted = 0;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const { numAffectedRows = 0n } = await sql`
      DELETE FROM refused_requests WHERE id IN (
        SELECT id FROM refused_requests WHERE refused_at < ${refusedBefore}
        ORDER BY refused_at LIMIT ${ROWS_AT_A_TIME}
      )`.execute(db);
    deleted += Number(numAffectedRows);
    if (numAffectedRows < BigInt(ROWS_AT_A_TIME)) break;
  }
  await sql`DELETE FROM refusal_batches WHERE received_at < ${refusedBefore}`.execute(db);
  return deleted;
}
