import pg from 'pg';

/** A ledger written by SQL, so that millions of rows take minutes. */
export interface GeneratedLedger {
  readonly events: number;
  /** Nano-USD by bucket, computed outside of the database. */
  readonly spent: ReadonlyMap<string, bigint>;
}

const BATCH_EVENTS = 250_000;
export const PRINCIPALS = 500;
export const TEAMS = 20;
export const DEPARTMENTS = 5;

/** The id of a request of the ledger, or of the team with a number. */
export const generatedId = (kind: 'req' | 'team', number: number) =>
  `${kind}_${String(number).padStart(26, '0')}`;

/**
 * Writes the events of the current month, like those of `generateEvents` but with other ids, and nothing that is derived
 * from them.
 */
export async function generateLedger(
  databaseUrl: string,
  events: number,
  now: Date,
  onProgress: (text: string) => void,
): Promise<GeneratedLedger> {
  const monthMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("SET synchronous_commit = off; SET maintenance_work_mem = '512MB'");
    // Creating the indexes after the rows takes a fraction of the time.
    const { rows: indexes } = await client.query<{ name: string; definition: string }>(`
      SELECT indexname AS name, indexdef AS definition FROM pg_indexes
      WHERE tablename = 'usage_events' AND indexname <> 'usage_events_pkey'`);
    for (const { name } of indexes) await client.query(`DROP INDEX ${name}`);
    for (let at = 0; at < events; at += BATCH_EVENTS) {
      const last = Math.min(at + BATCH_EVENTS, events) - 1;
      await client.query(INSERT_EVENTS, [at, last, monthMs, (now.getTime() - monthMs) / events]);
      if (at % (4 * BATCH_EVENTS) === 0) onProgress(`${last + 1} of ${events} rows`);
    }
    onProgress('indexes');
    // Of each month too: as Postgres shows it, an index is of the empty parent alone.
    for (const { definition } of indexes) await client.query(definition.replace(' ON ONLY ', ' ON '));
    await client.query('ANALYZE usage_events');
  } finally {
    await client.end();
  }
  return { events, spent: spentBy(events, monthMs) };
}

/** $1 to $2 are numbered, spread over the time since $3 at $4 milliseconds each. */
const INSERT_EVENTS = `
  INSERT INTO usage_events (
    event_id, request_id, key_id, principal_id, policy_id, bucket_keys, model_requested, model, connector_id,
    input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano_usd,
    price_version, estimated, outcome, http_status, streamed, admitted_at, settled_at, first_byte_us, duration_us,
    attribution, response_id, producer_id, epoch, shard, n, team_id)
  SELECT
    (lpad(to_hex(at_ms), 12, '0') || '7000' || '9' || lpad(to_hex(number), 15, '0'))::uuid, 'req_' || lpad(number::text, 26, '0'),
    'key_' || principal || '_' || (number / ${PRINCIPALS}) % 2, 'principal-' || principal, 'policy_team_' || team,
    ARRAY[
      'policy_department_' || department || '/1/' || $3::bigint || '/policy',
      'policy_department_' || department || '/1/' || $3::bigint || '/principal:principal-' || principal,
      'policy_team_' || team || '/1/' || $3::bigint || '/principal:principal-' || principal],
    model, model, 'connector_1', input, 0, 0, 0, output, input * 1250 + output * 10000, 1, false, 'success', 200,
    number % 2 = 0, to_timestamp(at_ms / 1000.0), to_timestamp(at_ms / 1000.0), 300000, 900000,
    jsonb_build_object('user', 'user-' || principal, 'team', 'team-' || team, 'project', 'project-' || team),
    'chatcmpl-' || number, '00000000-0000-7000-8000-0000aaaaffff', '00000000-0000-7000-8000-0000bbbbffff',
    department % 4, number + 1, 'team_' || lpad(team::text, 26, '0')
  FROM (
    SELECT number, ($3::bigint + floor(number * $4::float8))::bigint AS at_ms, number * 7919 % ${PRINCIPALS} AS principal,
      number * 7919 % ${PRINCIPALS} % ${TEAMS} AS team, number * 7919 % ${PRINCIPALS} % ${DEPARTMENTS} AS department,
      200 + number % 1800 AS input, 50 + number % 400 AS output,
      (ARRAY['openai/gpt-5', 'openai/gpt-5-mini', 'anthropic/claude-sonnet', 'mistral/large'])
        [1 + number * 7919 % ${PRINCIPALS} % 4] AS model
    FROM generate_series($1::bigint, $2::bigint) AS number
  ) AS generated`;

function spentBy(events: number, monthMs: number): Map<string, bigint> {
  // Far below the largest exact number: ten million events of at most 6 million nano-USD.
  const byPrincipal = new Float64Array(PRINCIPALS);
  for (let number = 0; number < events; number++) {
    const principal = (number * 7_919) % PRINCIPALS;
    const cost = (200 + (number % 1_800)) * 1_250 + (50 + (number % 400)) * 10_000;
    byPrincipal[principal] = (byPrincipal[principal] ?? 0) + cost;
  }
  const spent = new Map<string, bigint>();
  for (const [principal, nano] of byPrincipal.entries()) {
    if (nano === 0) continue;
    const department = `policy_department_${principal % DEPARTMENTS}/1/${monthMs}`;
    for (const key of [
      `${department}/policy`,
      `${department}/principal:principal-${principal}`,
      `policy_team_${principal % TEAMS}/1/${monthMs}/principal:principal-${principal}`,
    ]) {
      spent.set(key, (spent.get(key) ?? 0n) + BigInt(nano));
    }
  }
  return spent;
}
