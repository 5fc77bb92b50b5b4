import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { FAILED } from '../spend/usageSums.ts';

export interface ConnectorAttempts {
  readonly attempts: number;
  /** Those that failed at the vendor or on the way there. */
  readonly failed: number;
}

const MAX_SEARCHED = 20_000;

/** How the newest attempts since a time went, by connector; of at most 20,000 in all. Connectors without any are absent. */
export async function readConnectorAttempts(
  db: Database,
  connectorIds: readonly string[],
  since: Date,
): Promise<ReadonlyMap<string, ConnectorAttempts>> {
  const { rows } = await sql<{ connector_id: string; attempts: number; failed: number }>`
    SELECT connector_id, count(*)::integer AS attempts,
      count(*) FILTER (WHERE outcome = ANY (${arrayLiteral(FAILED)}::text[]))::integer AS failed
    FROM (
      SELECT connector_id, kind, cache_hit, outcome FROM usage_events
      WHERE admitted_at >= ${since} ORDER BY admitted_at DESC, event_id DESC LIMIT ${MAX_SEARCHED}
    ) AS newest
    WHERE kind = 'attempt' AND NOT cache_hit AND connector_id = ANY (${arrayLiteral(connectorIds)}::text[])
    GROUP BY connector_id`.execute(db);
  return new Map(rows.map(({ connector_id, ...counts }) => [connector_id, counts]));
}
