import { decideRates, NO_RATES, type RateAmounts, type RateGrant } from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** Asks for requests and tokens in one minute of a rate counter. */
export interface RateCall extends RateAmounts {
  /** Of a further limit, its `furtherLimitId`. */
  readonly policyId: string;
  readonly counterVersion: number;
  readonly subject: string;
  readonly minute: bigint;
}

/**
 * Grants from the shared part of each policy's limits. A counter's row holds its newest minute: a call for an older one
 * gets nothing. Grants come in the order of the calls, of which there is at most one per counter.
 */
export async function grantRates(
  db: Database,
  calls: readonly RateCall[],
  liveProxies: number,
): Promise<RateGrant[]> {
  if (calls.length === 0) return [];
  return await db.transaction().execute(async (tx) => {
    const counters = new Map((await lockCounters(tx, calls)).map((row) => [row.counter_key, row]));
    const granted = calls.map((call) => {
      const counter = counters.get(counterKey(call));
      if (!counter || counter.minute !== call.minute) return NO_RATES;
      const limits = { requests: counter.requests_per_minute, tokens: counter.tokens_per_minute };
      return decideRates(limits, counter, call, liveProxies);
    });
    await sql`
      INSERT INTO rate_minutes AS counter (counter_key, minute, requests, tokens)
      SELECT counter_key, 0, requests, tokens
      FROM unnest(${calls.map(counterKey)}::text[], ${granted.map((each) => each.requests)}::bigint[],
                  ${granted.map((each) => each.tokens)}::bigint[]) AS granted (counter_key, requests, tokens)
      ON CONFLICT (counter_key) DO UPDATE SET
        requests = counter.requests + excluded.requests, tokens = counter.tokens + excluded.tokens`.execute(
      tx,
    );
    return granted;
  });
}

/** The counters, moved on to the minutes of the calls; locked in order of their keys until the transaction ends. */
async function lockCounters(tx: Tx, calls: readonly RateCall[]) {
  const { rows } = await sql<{
    counter_key: string;
    minute: bigint;
    requests: bigint;
    tokens: bigint;
    requests_per_minute: bigint;
    tokens_per_minute: bigint;
  }>`
    WITH counter AS (
      INSERT INTO rate_minutes AS counter (counter_key, minute, requests, tokens)
      SELECT call.counter_key, call.minute, 0, 0
      FROM unnest(${calls.map(counterKey)}::text[], ${calls.map((call) => call.minute)}::bigint[])
        AS call (counter_key, minute)
      ORDER BY call.counter_key
      ON CONFLICT (counter_key) DO UPDATE SET
        minute = greatest(counter.minute, excluded.minute),
        requests = CASE WHEN excluded.minute > counter.minute THEN 0 ELSE counter.requests END,
        tokens = CASE WHEN excluded.minute > counter.minute THEN 0 ELSE counter.tokens END
      RETURNING counter.*
    )
    SELECT counter.*, coalesce(granting.requests_per_minute, 0)::bigint AS requests_per_minute,
           coalesce(granting.tokens_per_minute, 0) AS tokens_per_minute
    FROM counter
    JOIN unnest(${calls.map(counterKey)}::text[], ${calls.map((call) => call.policyId)}::text[])
      AS call (counter_key, policy_id) USING (counter_key)
    CROSS JOIN LATERAL (
      SELECT requests_per_minute, tokens_per_minute FROM policies WHERE id = call.policy_id
      UNION ALL
      SELECT further.requests_per_minute, further.tokens_per_minute
      FROM policies CROSS JOIN LATERAL jsonb_to_recordset(policies.limits) AS further (
        id text, requests_per_minute bigint, tokens_per_minute bigint)
      WHERE policies.id = split_part(call.policy_id, '.', 1) AND further.id = split_part(call.policy_id, '.', 2)
      LIMIT 1
    ) AS granting`.execute(tx);
  return rows;
}

function counterKey({ policyId, counterVersion, subject }: RateCall): string {
  return `${policyId}/${counterVersion}/${subject}`;
}

/** Deletes the counters of minutes before a given one, which counts as those of the calls do. */
export async function pruneRates(db: Database, beforeMinute: bigint): Promise<void> {
  await db.deleteFrom('rate_minutes').where('minute', '<', beforeMinute).execute();
}
