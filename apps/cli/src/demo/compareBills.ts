import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** The ledger beside the vendors' bills, for the requests of the load. Amounts in nano-USD. */
export interface Comparison {
  /** Rows that the ledger has, one per request that was sent to a vendor. */
  readonly rows: number;
  /** Requests with more than one row: none, or something was charged twice. */
  readonly twice: number;
  /** Requests that a vendor bills and the ledger lacks: none, or something is missing. */
  readonly missing: number;
  readonly metered: Sums;
  /** Requests that were in flight on the killed proxy. Their usage is unknown: they cost their reservation, marked as estimated. */
  readonly estimated: Sums;
  readonly differing: readonly number[];
  /** The estimated rows that an operator may correct by the bill. */
  readonly corrections: readonly { readonly requestId: string; readonly nano: bigint }[];
}

interface Sums {
  readonly requests: number;
  readonly ledger: bigint;
  readonly billed: bigint;
}

interface Row {
  readonly number: string;
  readonly request_id: string;
  readonly cost: string;
  readonly estimated: boolean;
}

export async function compareBills(
  db: Database,
  policyId: string,
  charges: ReadonlyMap<number, bigint>,
): Promise<Comparison> {
  const { rows } = await sql<Row>`
    SELECT attribution->'labels'->>'number' AS number, request_id, cost_nano_usd::text AS cost, estimated
    FROM usage_events WHERE policy_id = ${policyId} AND kind = 'attempt' AND attribution->'labels' ? 'number'
    ORDER BY event_id`.execute(db);
  const numbers = rows.map(({ number }) => Number(number));
  const known = new Set(numbers);
  const differing: number[] = [];
  const corrections: { requestId: string; nano: bigint }[] = [];
  const metered = { requests: 0, ledger: 0n, billed: 0n };
  const estimated = { requests: 0, ledger: 0n, billed: 0n };
  for (const row of rows) {
    const billed = charges.get(Number(row.number)) ?? 0n;
    const cost = BigInt(row.cost);
    const sums = row.estimated ? estimated : metered;
    sums.requests++;
    sums.ledger += cost;
    sums.billed += billed;
    if (!row.estimated && cost !== billed) differing.push(Number(row.number));
    if (row.estimated && cost !== billed)
      corrections.push({ requestId: row.request_id, nano: billed - cost });
  }
  return {
    rows: rows.length,
    twice: rows.length - known.size,
    missing: [...charges.keys()].filter((number) => !known.has(number)).length,
    metered,
    estimated,
    differing,
    corrections,
  };
}

/** What the ledger has in all for a policy, and what its counter says; both with corrections. */
export async function readTotals(
  db: Database,
  policyId: string,
): Promise<{ ledger: bigint; counter: bigint }> {
  const { rows } = await sql<{ ledger: string; counter: string }>`
    SELECT (SELECT coalesce(sum(cost_nano_usd), 0)::text FROM usage_events WHERE policy_id = ${policyId}) AS ledger,
      (SELECT coalesce(sum(nano), 0)::text FROM (
        SELECT bucket_key, spent_nano_usd AS nano FROM spend_buckets
        UNION ALL SELECT bucket_key, nano_usd FROM appended_spend
      ) AS spent WHERE bucket_key LIKE ${`${policyId}/%/policy`}) AS counter`.execute(db);
  return { ledger: BigInt(rows[0]?.ledger ?? 0), counter: BigInt(rows[0]?.counter ?? 0) };
}
