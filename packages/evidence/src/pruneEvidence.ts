import type { Database } from '@weighbridge/database';
import { HALF_LIFE_MS } from '@weighbridge/domain';
import { sql } from 'kysely';
import { MAX_WORKLOAD_TYPES } from './addToStrata.ts';

/** So many go at once when there are too many: what is new finds room until the next time. */
const ROOM = 100;
/** Evidence that counts less than this says nothing any more. */
const LEAST_COUNT = 0.001;

/** Keeps the workload types few, by forgetting those that were not used for longest, and forgets what has faded away. */
export async function pruneEvidence(db: Database, now: Date): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // In the order in which they are locked when something is added to them.
    await sql`
      WITH ranked AS (
        SELECT workload_type, row_number() OVER (ORDER BY used_at DESC, workload_type) AS place, count(*) OVER () AS types
        FROM evidence_types WHERE workload_type <> ''
      ), locked AS (
        SELECT workload_type FROM evidence_types
        WHERE workload_type IN (
          SELECT workload_type FROM ranked WHERE types >= ${MAX_WORKLOAD_TYPES - 1} AND place > ${MAX_WORKLOAD_TYPES - ROOM}
        )
        ORDER BY workload_type COLLATE "C" FOR UPDATE
      )
      DELETE FROM evidence_types WHERE workload_type IN (SELECT workload_type FROM locked)`.execute(tx);
  });
  const isFaded = sql`type.workload_type = stratum.workload_type
    AND greatest(stratum.requests, stratum.scores) * power(0.5::float8, least(100, type.age - stratum.age
      + greatest(extract(epoch FROM ${now}::timestamptz - type.used_at)::float8 * 1000 / ${sql.lit(HALF_LIFE_MS)}, 0)))
      < ${LEAST_COUNT}`;
  // Only who holds a type's row may touch its strata.
  await sql`
    WITH type AS (
      SELECT workload_type, age, used_at FROM evidence_types AS type
      WHERE EXISTS (SELECT FROM evidence_strata AS stratum WHERE ${isFaded})
      ORDER BY workload_type COLLATE "C" FOR UPDATE
    )
    DELETE FROM evidence_strata AS stratum USING type WHERE ${isFaded}`.execute(db);
}
