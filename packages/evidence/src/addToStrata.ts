import { arrayLiteral, type Tx } from '@weighbridge/database';
import { HALF_LIFE_MS, HALF_LIFE_REQUESTS, type StratumSums } from '@weighbridge/domain';
import type { WorkloadType } from '@weighbridge/ledger';
import { CompiledQuery } from 'kysely';

/** An addition to a stratum. */
export interface StratumChange {
  readonly type: WorkloadType;
  readonly model: string;
  readonly sums: StratumSums;
}

/** The stratum that a change was added to. A workload type beyond the maximum counts as unnamed. */
export interface ChangedStratum {
  readonly workloadType: string;
  readonly model: string;
  /** The age of its workload type, in half-lives. */
  readonly age: number;
}

/** About how many workload types are stored. When it is reached, maintenance deletes some. */
export const MAX_WORKLOAD_TYPES = 1_000;

/** The sums of a stratum: column and field. */
export const SUMS = [
  ['requests', 'requests'],
  ['successes', 'successes'],
  ['latency_ms', 'latencyMs'],
  ['time_to_first_token_ms', 'timeToFirstTokenMs'],
  ['timed', 'timed'],
  ['cost_nano_usd', 'costNanoUsd'],
  ['score_sum', 'scoreSum'],
  ['scores', 'scores'],
] as const satisfies readonly (readonly [string, keyof StratumSums])[];

const NAMES = SUMS.map(([name]) => name);

/**
 * A workload type ages with time and with its requests, and a stratum fades by how much its type has aged since the stratum last
 * changed. The lock on a type's row protects its strata, so only types are locked in order.
 */
const ADD = `
  WITH change AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], ${NAMES.map((_, at) => `$${at + 4}::float8[]`).join(', ')})
      AS change (workload_type, name, model, ${NAMES.join(', ')})
  ), bounded AS (
    SELECT CASE WHEN is_named THEN workload_type ELSE '' END AS workload_type,
           max(CASE WHEN is_named THEN name ELSE '' END) AS name, model,
           ${NAMES.map((name) => `sum(${name}) AS ${name}`).join(', ')}
    FROM (
      SELECT *, EXISTS (SELECT FROM evidence_types AS known WHERE known.workload_type = change.workload_type)
                OR (SELECT count(*) FROM evidence_types) < ${MAX_WORKLOAD_TYPES} AS is_named
      FROM change
    ) AS change
    GROUP BY 1, 3
  ), aged AS (
    INSERT INTO evidence_types AS stored (workload_type, name, age, used_at)
    SELECT workload_type, max(name), sum(requests) / ${HALF_LIFE_REQUESTS}, $${NAMES.length + 4}::timestamptz
    FROM bounded GROUP BY workload_type ORDER BY workload_type COLLATE "C"
    ON CONFLICT (workload_type) DO UPDATE SET
      name = excluded.name,
      age = stored.age + excluded.age
        + greatest(extract(epoch FROM excluded.used_at - stored.used_at)::float8 * 1000 / ${HALF_LIFE_MS}, 0),
      used_at = greatest(stored.used_at, excluded.used_at),
      version = stored.version + 1
    RETURNING workload_type, age
  )
  INSERT INTO evidence_strata AS stored (workload_type, model, age, ${NAMES.join(', ')})
  SELECT workload_type, model, age, ${NAMES.join(', ')} FROM bounded JOIN aged USING (workload_type)
  ON CONFLICT (workload_type, model) DO UPDATE SET
    age = excluded.age,
    ${NAMES.map((name) => `${name} = greatest(faded(stored.${name}, excluded.age - stored.age) + excluded.${name}, 0)`).join(',\n    ')}
  RETURNING workload_type, model, age`;

/** Adds to strata. Call it last in a transaction, since other writers wait for the types' rows. */
export async function addToStrata(
  tx: Tx,
  changes: readonly StratumChange[],
  now: Date,
): Promise<ChangedStratum[]> {
  if (changes.length === 0) return [];
  const { rows } = await tx.executeQuery(
    CompiledQuery.raw(ADD, [
      arrayLiteral(changes.map(({ type }) => type.key)),
      arrayLiteral(changes.map(({ type }) => type.name)),
      arrayLiteral(changes.map(({ model }) => model)),
      ...SUMS.map(([, sum]) => arrayLiteral(changes.map(({ sums }) => sums[sum]))),
      now,
    ]),
  );
  return (rows as { workload_type: string; model: string; age: number }[]).map(
    ({ workload_type, model, age }) => ({ workloadType: workload_type, model, age }),
  );
}
