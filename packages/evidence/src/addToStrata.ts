import type { Tx } from '@weighbridge/database';
import { arrayLiteral } from '@weighbridge/database';
import { HALF_LIFE_MS, HALF_LIFE_REQUESTS, type StratumSums } from '@weighbridge/domain';
import type { WorkloadType } from '@weighbridge/ledger';
import { CompiledQuery } from 'kysely';

/** What is added to a stratum. */
export interface StratumChange {
  readonly type: WorkloadType;
  readonly model: string;
  readonly sums: StratumSums;
}

/** Where a change went: a workload type that there was no room for counts as the unnamed one. */
export interface ChangedStratum {
  readonly workloadType: string;
  readonly model: string;
  /** Of its workload type, in half-lives. */
  readonly age: number;
}

/** About so many workload types are kept; upkeep makes room when it is reached. */
export const MAX_WORKLOAD_TYPES = 1_000;

/** The sums of a stratum: column, and what goes into it. */
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
 * One statement for all: types age by the time and the requests since, and each stratum fades by how far its type has aged
 * since it was last added to. Whoever holds a type's row is alone with its strata, so only types need an order.
 */
const ADD = `
  WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], ${NAMES.map((_, at) => `$${at + 4}::float8[]`).join(', ')})
      AS given (workload_type, name, model, ${NAMES.join(', ')})
  ), fitted AS (
    SELECT CASE WHEN has_room THEN workload_type ELSE '' END AS workload_type,
           max(CASE WHEN has_room THEN name ELSE '' END) AS name, model,
           ${NAMES.map((name) => `sum(${name}) AS ${name}`).join(', ')}
    FROM (
      SELECT *, EXISTS (SELECT FROM evidence_types AS known WHERE known.workload_type = given.workload_type)
                OR (SELECT count(*) FROM evidence_types) < ${MAX_WORKLOAD_TYPES} AS has_room
      FROM given
    ) AS given
    GROUP BY 1, 3
  ), aged AS (
    INSERT INTO evidence_types AS kept (workload_type, name, age, used_at)
    SELECT workload_type, max(name), sum(requests) / ${HALF_LIFE_REQUESTS}, $${NAMES.length + 4}::timestamptz
    FROM fitted GROUP BY workload_type ORDER BY workload_type COLLATE "C"
    ON CONFLICT (workload_type) DO UPDATE SET
      name = excluded.name,
      age = kept.age + excluded.age
        + greatest(extract(epoch FROM excluded.used_at - kept.used_at)::float8 * 1000 / ${HALF_LIFE_MS}, 0),
      used_at = greatest(kept.used_at, excluded.used_at),
      version = kept.version + 1
    RETURNING workload_type, age
  )
  INSERT INTO evidence_strata AS kept (workload_type, model, age, ${NAMES.join(', ')})
  SELECT workload_type, model, age, ${NAMES.join(', ')} FROM fitted JOIN aged USING (workload_type)
  ON CONFLICT (workload_type, model) DO UPDATE SET
    age = excluded.age,
    ${NAMES.map((name) => `${name} = greatest(faded(kept.${name}, excluded.age - kept.age) + excluded.${name}, 0)`).join(',\n    ')}
  RETURNING workload_type, model, age`;

/** Adds to strata, which is the last thing that a transaction should do: others wait for the types' rows. */
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
