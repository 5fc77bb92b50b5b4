import { bucketOfKey, windowStartOf } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { expect } from 'vitest';

/** Names a counter and the UTC month in which a window of it started. */
export function counterMonth(key: string): string {
  const bucket = bucketOfKey(key);
  const month = windowStartOf(bucket).toISOString().slice(0, 'yyyy-mm'.length);
  return `${bucket.policyId}/${bucket.counterVersion}/${month}/${bucket.subject}`;
}

export interface CounterSums {
  /** What the buckets and months say, by `counterMonth`; without those that spent nothing. */
  readonly spent: ReadonlyMap<string, bigint>;
  /** The same less opening balances. */
  readonly counted: ReadonlyMap<string, bigint>;
  /** What the ledger's rows add up to. */
  readonly ledger: ReadonlyMap<string, bigint>;
}

/** Sums by counter and month, in one snapshot, computed here: not by the statements under test. */
export async function readCounterSums(db: Database): Promise<CounterSums> {
  const read = await db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => ({
      buckets: await tx.selectFrom('spend_buckets').selectAll().execute(),
      months: await tx.selectFrom('spend_by_month').selectAll().execute(),
      events: await tx.selectFrom('usage_events').select(['bucket_keys', 'cost_nano_usd']).execute(),
    }));
  const [spent, counted, ledger] = [new Sums(), new Sums(), new Sums()];
  for (const row of read.buckets) {
    spent.add(counterMonth(row.bucket_key), row.spent_nano_usd);
    counted.add(counterMonth(row.bucket_key), row.spent_nano_usd - row.opening_nano_usd);
  }
  for (const row of read.months) {
    const key = `${row.policy_id}/${row.counter_version}/${row.month.toISOString().slice(0, 7)}/${row.subject}`;
    spent.add(key, row.spent_nano_usd);
    counted.add(key, row.spent_nano_usd - row.opening_nano_usd);
  }
  for (const row of read.events)
    for (const key of row.bucket_keys) ledger.add(counterMonth(key), row.cost_nano_usd);
  return { spent: spent.all(), counted: counted.all(), ledger: ledger.all() };
}

class Sums {
  readonly #sums = new Map<string, bigint>();

  add(key: string, nano: bigint): void {
    this.#sums.set(key, (this.#sums.get(key) ?? 0n) + nano);
  }

  all(): ReadonlyMap<string, bigint> {
    return new Map([...this.#sums].filter(([, nano]) => nano !== 0n).sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Checks that each counter has in each month what the ledger's rows add up to, and each bucket what its leases hold. */
export async function expectCounted(db: Database, when: string): Promise<CounterSums> {
  const sums = await readCounterSums(db);
  expect(sums.counted, when).toEqual(sums.ledger);
  const { rows } = await sql`
    SELECT bucket_key, leased_nano_usd FROM spend_buckets AS bucket
    WHERE leased_nano_usd <> coalesce((
      SELECT sum(hold_nano_usd) FROM budget_leases AS lease
      WHERE bucket.bucket_key IN (lease.bucket_key, lease.also_bucket_key)
    ), 0)`.execute(db);
  expect(rows, when).toEqual([]);
  return sums;
}
