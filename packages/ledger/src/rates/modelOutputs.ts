import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** How many of the newest attempts are looked at, over all models: what matters is the traffic of late. */
const NEWEST_ATTEMPTS = 20_000;
/** Fewer answers of a model say nothing of the next. */
const LEAST_ANSWERS = 20;

export interface ModelOutput {
  readonly model: string;
  /** All but one in twenty of its recent answers stay below it. */
  readonly p95Tokens: number;
}

/** Measures how long the models' answers are of late. A model that was not asked of late keeps what was last measured. */
export async function measureModelOutputs(db: Database, now: Date): Promise<void> {
  await sql`
    INSERT INTO model_outputs (model, p95_tokens, measured_at)
    SELECT model, percentile_disc(0.95) WITHIN GROUP (ORDER BY output_tokens), ${now}
    FROM (
      SELECT model, output_tokens, outcome, estimated, cache_hit FROM usage_events ORDER BY event_id DESC LIMIT ${NEWEST_ATTEMPTS}
    ) AS newest
    WHERE outcome = 'success' AND NOT estimated AND NOT cache_hit
    GROUP BY model
    HAVING count(*) >= ${LEAST_ANSWERS}
    ON CONFLICT (model) DO UPDATE SET p95_tokens = excluded.p95_tokens, measured_at = excluded.measured_at`.execute(
    db,
  );
}

export async function readModelOutputs(db: Database): Promise<ModelOutput[]> {
  const rows = await db
    .selectFrom('model_outputs')
    .select(['model', 'p95_tokens as p95Tokens'])
    .orderBy('model')
    .execute();
  return rows;
}
