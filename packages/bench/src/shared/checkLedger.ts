import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { GeneratedEvent } from './generateUsage.ts';

/** Throws with the difference unless the ledger has exactly these events and each bucket is the sum of its events. */
export async function checkLedger(databaseUrl: string, events: readonly GeneratedEvent[]): Promise<void> {
  const expected = new Map<string, bigint>();
  addSpent(expected, events);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    // The primary key rules out duplicates.
    const ids = await client.query<{ event_id: string; nano: string }>(
      'SELECT event_id, cost_nano_usd AS nano FROM usage_events',
    );
    const costs = new Map(ids.rows.map((row) => [row.event_id, BigInt(row.nano)]));
    const wrong = events.filter((event) => costs.get(event.eventId) !== event.costNanoUsd);
    if (wrong.length > 0) throw new Error(`${wrong.length} events are missing or have another cost`);
    if (costs.size !== events.length) {
      throw new Error(`the ledger has ${costs.size} events instead of ${events.length}`);
    }
    await untilMerged(client);
    await checkBuckets(client, expected);
  } finally {
    await client.end();
  }
}

const MERGED_TIMEOUT_MS = 10_000;

/** Waits until metering has merged into counters what it recorded. */
async function untilMerged(client: pg.Client): Promise<void> {
  const deadline = performance.now() + MERGED_TIMEOUT_MS;
  while (((await client.query('SELECT FROM appended_spend LIMIT 1')).rowCount ?? 0) > 0) {
    if (performance.now() > deadline) throw new Error('spend is not merged into its counters in time');
    await sleep(20);
  }
}

/** Adds the costs of the events to the sums of their buckets. */
export function addSpent(sums: Map<string, bigint>, events: readonly GeneratedEvent[]): void {
  for (const { buckets, costNanoUsd } of events) {
    for (const { key } of buckets) sums.set(key, (sums.get(key) ?? 0n) + costNanoUsd);
  }
}

/** Throws with the bucket's key if a bucket has another sum than expected, is missing, or is not expected. */
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
