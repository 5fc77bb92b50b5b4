import type { Database } from '@weighbridge/database';
import { HALF_LIFE_MS, type Stratum } from '@weighbridge/domain';
import { sql } from 'kysely';
import { SUMS } from './addToStrata.ts';

/** A workload type that has evidence. */
export interface WorkloadTypeVersion {
  readonly workloadType: string;
  /** Incremented by each change of its strata. */
  readonly version: bigint;
}

/** A stratum with the display name of its workload type. */
export interface NamedStratum extends Stratum {
  readonly name: string;
  readonly usedAt: Date;
}

/** All workload types. Their number is bounded. */
export async function readWorkloadTypes(db: Database): Promise<WorkloadTypeVersion[]> {
  return await db
    .selectFrom('evidence_types')
    .select(['workload_type as workloadType', 'version'])
    .orderBy('workload_type')
    .execute();
}

export interface EvidenceFilter {
  readonly workloadTypes?: readonly string[] | undefined;
  readonly models?: readonly string[] | undefined;
}

/** Strata, faded to `now`, ordered by workload type and model. */
export async function readStrata(db: Database, filter: EvidenceFilter, now: Date): Promise<NamedStratum[]> {
  const { workloadTypes, models } = filter;
  const { rows } = await sql<NamedStratum>`
    SELECT workload_type AS "workloadType", model, type.name, type.used_at AS "usedAt", ${now.getTime()}::float8 AS "atMs",
           ${sql.join(SUMS.map(([name, as]) => sql`faded(${sql.ref(`stratum.${name}`)}, half_lives) AS ${sql.ref(as)}`))}
    FROM evidence_strata AS stratum JOIN evidence_types AS type USING (workload_type),
         LATERAL (SELECT type.age - stratum.age
           + greatest(extract(epoch FROM ${now}::timestamptz - type.used_at)::float8 * 1000 / ${sql.lit(HALF_LIFE_MS)}, 0)
           AS half_lives) AS aging
    WHERE (${workloadTypes ?? null}::text[] IS NULL OR workload_type = ANY(${workloadTypes ?? null}::text[]))
      AND (${models ?? null}::text[] IS NULL OR model = ANY(${models ?? null}::text[]))
    ORDER BY workload_type COLLATE "C", model COLLATE "C"`.execute(db);
  return rows;
}
