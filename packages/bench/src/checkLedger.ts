import pg from 'pg';
import type { MeasuredEvent } from './usage.ts';

/** Throws, saying what differs, unless the ledger holds exactly these events and its buckets are their sums. */
export async function checkLedger(databaseUrl: string, events: readonly MeasuredEvent[]): Promise<void> {
  const expected = new Map<string, bigint>();
  addSpent(expected, events);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    // The primary key keeps an event from being there twice.
    const ids = await client.query<{ event_id: string; nano: string }>(
      'SELECT event_id, cost_nano_usd AS nano FROM usage_events',
    );
    const costs = new Map(ids.rows.map((row) => [row.event_id, BigInt(row.nano)]));
    const wrong = events.filter((event) => costs.get(event.eventId) !== event.costNanoUsd);
    if (wrong.length > 0) throw new Error(`${wrong.length} events are missing or cost something else`);
    if (costs.size !== events.length) {
      throw new Error(`the ledger has ${costs.size} events instead of ${events.length}`);
    }
    await checkBuckets(client, expected);
  } finally {
    await client.end();
  }
}

/** Adds what events cost to the sums of their buckets. */
export function addSpent(sums: Map<string, bigint>, events: readonly MeasuredEvent[]): void {
  for (const { buckets, costNanoUsd } of events) {
    for (const { key } of buckets) sums.set(key, (sums.get(key) ?? 0n) + costNanoUsd);
  }
}

/** Throws, saying which, where a bucket has not the sum that is expected of it, or is one that nobody expects. */
export async function checkBuckets(client: pg.Client, expected: ReadonlyMap<string, bigint>): Promise<void> {
  const { rows } = await client.query<{ key: string; nano: string }>(
    'SELECT bucket_key AS key, spent_nano_usd AS nano FROM spend_buckets',
  );
  const spent = new Map(rows.map((row) => [row.key, BigInt(row.nano)]));
  for (const key of new Set([...expected.keys(), ...spent.keys()])) {
    if (spent.get(key) === expected.get(key)) continue;
    throw new Error(`bucket ${key} has ${spent.get(key)} nano-USD instead of ${expected.get(key)}`);
  }
}
