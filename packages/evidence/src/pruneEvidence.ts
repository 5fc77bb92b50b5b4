import type { Database } from '@weighbridge/database';
import { HALF_LIFE_MS } from '@weighbridge/domain';
import { sql } from 'kysely';
import { MAX_WORKLOAD_TYPES } from './addToStrata.ts';

/** How many types are deleted at once, so that new ones fit until the next run. */
const FREED_TYPES = 100;
/** Strata that have faded below this many requests are deleted. */
const MIN_COUNT = 0.001;

/** Bounds the number of workload types by deleting the least recently used ones, and deletes strata that have faded away. */
export async function pruneEvidence(db: Database, now: Date): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // Locked in the same order as by `addToStrata`.
    await sql`
      WITH ranked AS (
        SELECT workload_type, row_number() OVER (ORDER BY used_at DESC, workload_type) AS place, count(*) OVER () AS types
        FROM evidence_types WHERE workload_type <> ''
      ), locked AS (
        SELECT workload_type FROM evidence_types
        WHERE workload_type IN (
          SELECT workload_type FROM ranked WHERE types >= ${MAX_WORKLOAD_TYPES - 1} AND place > ${MAX_WORKLOAD_TYPES - FREED_TYPES}
        )
        ORDER BY workload_type COLLATE "C" FOR UPDATE
      )
      DELETE FROM evidence_types WHERE workload_type IN (SELECT workload_type FROM locked)`.execute(tx);
  });
  const isFaded = sql`type.workload_type = stratum.workload_type
    AND greatest(stratum.requests, stratum.scores) * power(0.5::float8, least(100, type.age - stratum.age
      + greatest(extract(epoch FROM ${now}::timestamptz - type.used_at)::float8 * 1000 / ${sql.lit(HALF_LIFE_MS)}, 0)))
      < ${MIN_COUNT}`;
  // A type's row is locked before its strata change.
  await sql`
    WITH type AS (
      SELECT workload_type, age, used_at FROM evidence_types AS type
      WHERE EXISTS (SELECT FROM evidence_strata AS stratum WHERE ${isFaded})
      ORDER BY workload_type COLLATE "C" FOR UPDATE
    )
    DELETE FROM evidence_strata AS stratum USING type WHERE ${isFaded}`.execute(db);
}
