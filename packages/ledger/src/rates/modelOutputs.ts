import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** How many of the newest attempts are measured, over all models: recent traffic is what matters. */
const NEWEST_ATTEMPTS = 20_000;
/** A model with fewer responses is not measured. */
const MIN_RESPONSES = 20;

export interface ModelOutput {
  readonly model: string;
  /** The 95th percentile of the output tokens of its recent responses. */
  readonly p95Tokens: number;
}

/** Measures the length of each model's recent responses. A model without recent traffic keeps its last value. */
export async function measureModelOutputs(db: Database, now: Date): Promise<void> {
  await sql`
    INSERT INTO model_outputs (model, p95_tokens, measured_at)
    SELECT model, percentile_disc(0.95) WITHIN GROUP (ORDER BY output_tokens), ${now}
    FROM (
      SELECT model, output_tokens, outcome, estimated, cache_hit FROM usage_events ORDER BY event_id DESC LIMIT ${NEWEST_ATTEMPTS}
    ) AS newest
    WHERE outcome = 'success' AND NOT estimated AND NOT cache_hit
    GROUP BY model
    HAVING count(*) >= ${MIN_RESPONSES}
    ON CONFLICT (model) DO UPDATE SET p95_tokens = excluded.p95_tokens, measured_at = excluded.measured_at`.execute(
    db,
  );
}

export async function readModelOutputs(db: Database): Promise<ModelOutput[]> {
  return await db
    .selectFrom('model_outputs')
    .select(['model', 'p95_tokens as p95Tokens'])
    .orderBy('model')
    .execute();
}
