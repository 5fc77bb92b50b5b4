import { USAGE_SHARDS } from '@weighbridge/contracts';
import pg from 'pg';
import type { GeneratedBucket, GeneratedEvent } from '../shared/generateUsage.ts';

/** The columns that vary, with their types and values. The other columns have the same value in every row. */
const COLUMNS: readonly (readonly [name: string, type: string, value: (event: Row) => unknown])[] = [
  ['event_id', 'uuid', ({ event }) => event.eventId],
  ['request_id', 'text', ({ event }) => event.requestId],
  ['key_id', 'text', ({ event }) => event.keyId],
  ['principal_id', 'text', ({ event }) => event.principalId],
  ['policy_id', 'text', ({ event }) => event.policyId],
  ['bucket_keys', 'text', ({ event }) => `{${event.buckets.map(({ key }) => `"${key}"`).join(',')}}`],
  ['model_requested', 'text', ({ event }) => event.model],
  ['model', 'text', ({ event }) => event.model],
  ['input_tokens', 'integer', ({ event }) => event.inputTokens],
  ['output_tokens', 'integer', ({ event }) => event.outputTokens],
  ['cost_nano_usd', 'bigint', ({ event }) => event.costNanoUsd],
  ['admitted_at', 'timestamptz', ({ event }) => event.at.toISOString()],
  ['settled_at', 'timestamptz', ({ event }) => event.at.toISOString()],
  ['attribution', 'jsonb', ({ event }) => event.attribution],
  ['response_id', 'text', ({ event }) => event.eventId],
  ['n', 'bigint', ({ n }) => n],
];

const INSERT_EVENTS = `
  INSERT INTO usage_events (
    ${COLUMNS.map(([name]) => name).join(', ')}, connector_id, cache_read_tokens, cache_write_tokens,
    cache_write_1h_tokens, price_version, estimated, outcome, http_status, streamed, first_byte_us, duration_us,
    producer_id, epoch, shard)
  SELECT
    ${COLUMNS.map(([name]) => (name === 'bucket_keys' ? 'bucket_keys::text[]' : name)).join(', ')}, 'connector_1', 0, 0,
    0, 1, false, 'success', 200, true, 300000, 900000,
    '00000000-0000-7000-8000-0000aaaa0000', '00000000-0000-7000-8000-0000bbbb0000', $${COLUMNS.length + 1}::smallint
  FROM unnest(${COLUMNS.map(([, type], at) => `$${at + 1}::${type}[]`).join(', ')})
    AS event (${COLUMNS.map(([name]) => name).join(', ')})`;

const ADD_TO_BUCKETS = `
  INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
  SELECT key, policy_id, 1, subject, window_start, nano
  FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[])
    AS bucket (key, policy_id, subject, window_start, nano)
  ON CONFLICT (bucket_key) DO UPDATE SET spent_nano_usd = spend_buckets.spent_nano_usd + excluded.spent_nano_usd`;

interface Row {
  readonly event: GeneratedEvent;
  readonly n: number;
}

/**
 * Writes the events' rows and adds their costs to the buckets, from memory, and does nothing else: an upper bound for a
 * ledger on this Postgres. One connection per shard, as in metering.
 */
export async function writeWithRawSql(
  databaseUrl: string,
  events: readonly GeneratedEvent[],
  eventsPerTransaction: number,
): Promise<void> {
  await Promise.all(
    Array.from({ length: USAGE_SHARDS }, async (_, shard) => {
      const client = new pg.Client({ connectionString: databaseUrl });
      await client.connect();
      try {
        const rows = events
          .filter((event) => event.shard === shard)
          .map((event, at) => ({ event, n: at + 1 }));
        for (let at = 0; at < rows.length; at += eventsPerTransaction) {
          await writeTransaction(client, shard, rows.slice(at, at + eventsPerTransaction));
        }
      } finally {
        await client.end();
      }
    }),
  );
}

async function writeTransaction(client: pg.Client, shard: number, rows: readonly Row[]): Promise<void> {
  const sums = new Map<string, { readonly bucket: GeneratedBucket; nano: bigint }>();
  for (const { event } of rows) {
    for (const bucket of event.buckets) {
      const sum = sums.get(bucket.key);
      if (sum) sum.nano += event.costNanoUsd;
      else sums.set(bucket.key, { bucket, nano: event.costNanoUsd });
    }
  }
  // All writers lock the buckets in one order, so no deadlock occurs.
  const buckets = [...sums.values()].sort((a, b) => (a.bucket.key < b.bucket.key ? -1 : 1));
  await client.query('BEGIN');
  await client.query({
    name: 'insert_events',
    text: INSERT_EVENTS,
    values: [...COLUMNS.map(([, , value]) => rows.map(value)), shard],
  });
  await client.query({
    name: 'add_to_buckets',
    text: ADD_TO_BUCKETS,
    values: [
      buckets.map(({ bucket }) => bucket.key),
      buckets.map(({ bucket }) => bucket.policyId),
      buckets.map(({ bucket }) => bucket.subject),
      buckets.map(({ bucket }) => bucket.windowStart.toISOString()),
      buckets.map(({ nano }) => nano),
    ],
  });
  await client.query('COMMIT');
}
