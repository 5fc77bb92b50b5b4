import { type RawBuilder, sql } from 'kysely';
import { OTHER } from './attributionBound.ts';
import { type CallersDimension, isCallers, SUM_DIMENSIONS, valuesSha256 } from './usageSums.ts';

const LITERAL_OTHER = sql.lit(OTHER);

/**
 * The rows of a source with the columns `hour` and those of all dimensions, under the values that they count under now, as
 * `countedAs` says. `is_folded` tells of each whether these may be others than its own; all other columns are as they were.
 */
export function foldedSql(source: RawBuilder<unknown>, columns: readonly string[]): RawBuilder<unknown> {
  const own = (name: CallersDimension) => sql.ref(`source.${name}`);
  // Computed only where it is looked up.
  const digest = (value: typeof own) => sql`CASE WHEN of_day.folding > 0 THEN ${valuesSha256(value)} END`;
  const values = SUM_DIMENSIONS.map((name) =>
    isCallers(name)
      ? sql`CASE WHEN ${own(name)} IS NOT NULL AND fold >= ${name === 'user' ? 1 : 2} THEN ${LITERAL_OTHER}
          ELSE ${own(name)} END AS ${sql.ref(name)}`
      : sql.ref(`source.${name}`),
  );
  return sql`
    SELECT ${sql.join(columns.map((name) => sql.ref(`source.${name}`)))}, ${sql.join(values)}, fold > 0 AS is_folded
    FROM (${source}) AS source
    LEFT JOIN usage_attribution_days AS of_day
      ON of_day.day = date_trunc('day', source.hour, 'UTC') AND of_day.key_id = source.key_id AND of_day.folding > 0
    LEFT JOIN usage_attributions AS own
      ON own.day = of_day.day AND own.key_id = of_day.key_id AND own.attribution_sha256 = ${digest(own)}
    LEFT JOIN usage_attributions AS rest
      ON rest.day = of_day.day AND rest.key_id = of_day.key_id AND rest.attribution_sha256 = ${digest(
        (name) =>
          name === 'user' ? sql`CASE WHEN ${own(name)} IS NOT NULL THEN ${LITERAL_OTHER} END` : own(name),
      )}
    CROSS JOIN LATERAL (
      SELECT CASE
        WHEN of_day.day IS NULL OR own.day IS NOT NULL THEN 0
        WHEN of_day.folding = 1 OR rest.day IS NOT NULL THEN 1
        ELSE 2
      END AS fold
    ) AS counted`;
}
