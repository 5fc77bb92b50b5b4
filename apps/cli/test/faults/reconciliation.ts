import type { BillEntry } from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { Caller, Cluster } from './cluster.ts';
import type { SentRequest } from './load.ts';

/** The vendor's bill compared with the service's record of the same requests. Amounts are nano-USD. */
export interface Reconciliation {
  readonly figures: {
    /** Requests that the caller sent, and those of them that reached the vendor. */
    readonly sent: number;
    readonly received: number;
    readonly rows: number;
    readonly exactRows: number;
    readonly exactBilled: bigint;
    readonly exactLedger: bigint;
    readonly estimatedRows: number;
    readonly estimatedBilled: bigint;
    readonly estimatedLedger: bigint;
    /** Σ (billed − ledger)⁺ over estimated rows. */
    readonly estimatedShort: bigint;
    /** Billed, but in no row. */
    readonly lost: bigint;
    readonly spentComplete: boolean;
  };
  /** Descriptions of what must never happen; empty if nothing is wrong. */
  readonly violations: readonly string[];
}

/** Headers that make the vendor misbehave: it may then report no usage, or other usage than it bills. */
const VENDOR_FAULTS = [
  'x-mock-no-usage',
  'x-mock-reset',
  'x-mock-stall',
  'x-mock-sse-error',
  'x-mock-zero-usage',
];

const MAX_VIOLATIONS = 20;

export interface ReconcileOptions {
  /** Whether the settlement of this request could not be written, though its response was complete. Default: never. */
  readonly mayBeEstimated?: (sent: SentRequest) => boolean;
}

/** Compares the requests of a caller with the bill, which is the truth. Call it once all is settled. */
export async function reconcile(
  cluster: Cluster,
  caller: Caller,
  sent: readonly SentRequest[],
  { mayBeEstimated = () => false }: ReconcileOptions = {},
): Promise<Reconciliation> {
  const violations: string[] = [];
  const received = chargesByRequest(cluster, caller);
  const rows = await rowsByRequest(cluster, caller);
  const sums = {
    exactRows: 0,
    exactBilled: 0n,
    exactLedger: 0n,
    estimatedRows: 0,
    estimatedBilled: 0n,
    estimatedLedger: 0n,
    estimatedShort: 0n,
    lost: 0n,
  };
  for (const one of sent) {
    const { number, request, end } = one;
    const charges = received.get(number) ?? [];
    const found = rows.get(number) ?? [];
    const billed = charges.reduce((sum, charge) => sum + charge, 0n);
    if (found.length < charges.length) {
      sums.lost += billed;
      violations.push(
        `${number}: sent to the vendor ${charges.length} times, recorded ${found.length} times`,
      );
      continue;
    }
    const unsent = found.length - charges.length;
    // An intent that was never sent, or an unreachable vendor.
    const mayBeUnsent = found.filter((row) => row.estimated || row.cost === 0n).length;
    if (unsent > mayBeUnsent)
      violations.push(`${number}: ${found.length} rows for ${charges.length} attempts`);
    const cost = found.reduce((sum, row) => sum + row.cost, 0n);
    if (found.some((row) => row.estimated)) {
      sums.estimatedRows += found.length;
      sums.estimatedBilled += billed;
      sums.estimatedLedger += cost;
      if (billed > cost) sums.estimatedShort += billed - cost;
      const hasVendorFault = VENDOR_FAULTS.some((header) => request.headers[header] !== undefined);
      if (end === 'whole' && !hasVendorFault && !mayBeEstimated(one))
        violations.push(`${number}: estimated, but its client received the whole response`);
    } else {
      sums.exactRows += found.length;
      sums.exactBilled += billed;
      sums.exactLedger += cost;
      if (billed !== cost) violations.push(`${number}: billed ${billed}, recorded ${cost}`);
    }
  }
  const numbers = new Set(sent.map(({ number }) => number));
  for (const number of rows.keys())
    if (!numbers.has(number)) violations.push(`${number}: a row without a request`);

  const ledger = sums.exactLedger + sums.estimatedLedger;
  const count = sums.exactRows + sums.estimatedRows;
  violations.push(
    ...(await differingBuckets(cluster)),
    ...(await differingHours(cluster, caller, { ledger, count })),
  );
  const { body: report } = await manage(cluster, 'GET', '/api/v1/usage', { key: caller.key });
  for (const field of ['bucket_spent_micro_usd', 'principal_spent_micro_usd']) {
    const expected = (ledger + 500n) / 1_000n;
    if (report[field] !== Number(expected)) violations.push(`${field} is ${report[field]}, not ${expected}`);
  }
  return {
    figures: {
      sent: sent.length,
      received: received.size,
      rows: count,
      ...sums,
      spentComplete: report.principal_spent_complete === true,
    },
    violations: violations.slice(0, MAX_VIOLATIONS),
  };
}

/** Waits until all is settled, and asserts that the ledger equals the bill. `row` names the test in the log. */
export async function expectReconciled(
  cluster: Cluster,
  caller: Caller,
  sent: readonly SentRequest[],
  row: string,
  options: ReconcileOptions = {},
): Promise<Reconciliation['figures']> {
  await cluster.settled();
  const reconciliation = await reconcile(cluster, caller, sent, options);
  process.stdout.write(`${row}: ${inWords(reconciliation)}\n`);
  expect(reconciliation.violations).toEqual([]);
  return reconciliation.figures;
}

/** The figures in one line. */
export function inWords({ figures }: Reconciliation): string {
  const { sent, received, exactRows, exactBilled, exactLedger, estimatedRows } = figures;
  return (
    `${sent} sent, ${received} at the vendor; ${exactRows} rows exact, ${exactLedger} for ${exactBilled} nano-USD; ` +
    `${estimatedRows} estimated, ${figures.estimatedLedger} for ${figures.estimatedBilled} (short ${figures.estimatedShort})`
  );
}

/** The vendor's charges for the attempts of each request, by the request's number. */
function chargesByRequest({ vendor }: Cluster, caller: Caller): Map<string, bigint[]> {
  const bill = new Map(vendor.bill.map((entry) => [entry.requestId, entry]));
  const received = new Map<string, bigint[]>();
  for (const { headers, requestId } of vendor.requests) {
    const number = String(headers['x-client-request-id']);
    if (!number.startsWith(`${caller.name}.`)) continue;
    const entry = bill.get(requestId);
    received.set(number, [...(received.get(number) ?? []), entry ? charge(entry) : 0n]);
  }
  return received;
}

/** At the prices of mock/echo, in nano-USD per token. */
function charge({ cachedInputTokens: cached, inputTokens, outputTokens }: BillEntry): bigint {
  return BigInt(inputTokens - cached) * 1_000n + BigInt(cached) * 100n + BigInt(outputTokens) * 2_000n;
}

interface Row {
  readonly cost: bigint;
  readonly estimated: boolean;
}

async function rowsByRequest({ db }: Cluster, caller: Caller): Promise<Map<string, Row[]>> {
  const found = await db
    .selectFrom('usage_events')
    .select(['cost_nano_usd', 'estimated', 'attribution'])
    .where('principal_id', '=', caller.name)
    .where('kind', '=', 'attempt')
    .execute();
  const rows = new Map<string, Row[]>();
  for (const { attribution, cost_nano_usd: cost, estimated } of found) {
    const { n } = (attribution as { labels: { n: string } }).labels;
    rows.set(n, [...(rows.get(n) ?? []), { cost: BigInt(cost), estimated }]);
  }
  return rows;
}

/** Waits until counters have what was recorded until now. */
export async function untilMerged(db: Cluster['db']): Promise<void> {
  const { rows } = await sql<{ id: string }>`SELECT max(id)::text AS id FROM appended_spend`.execute(db);
  await eventually(async () => {
    const left =
      await sql`SELECT FROM appended_spend WHERE id <= ${rows[0]?.id ?? 0}::bigint LIMIT 1`.execute(db);
    expect(left.rows).toEqual([]);
  });
}

/** Buckets of the whole ledger that differ from their opening balance plus the sum of the rows that name them. */
export async function differingBuckets({ db }: Pick<Cluster, 'db'>): Promise<string[]> {
  await untilMerged(db);
  const found = await sql<{ bucket_key: string; spent: string; summed: string }>`
    SELECT bucket_key, spent_nano_usd::text AS spent, (opening_nano_usd + coalesce(summed, 0))::text AS summed
    FROM spend_buckets FULL JOIN (
      SELECT bucket_key, sum(cost_nano_usd) AS summed FROM usage_events, unnest(bucket_keys) AS bucket_key
      GROUP BY bucket_key
    ) AS sums USING (bucket_key)
    WHERE spent_nano_usd IS DISTINCT FROM opening_nano_usd + coalesce(summed, 0)`.execute(db);
  return found.rows.map(
    ({ bucket_key, spent, summed }) => `bucket ${bucket_key} has ${spent}, its rows ${summed}`,
  );
}

async function differingHours(
  { db }: Cluster,
  caller: Caller,
  { ledger, count }: { readonly ledger: bigint; readonly count: number },
): Promise<string[]> {
  const found = await sql<{ cost: string; attempts: string }>`
    SELECT coalesce(sum(cost_nano_usd), 0)::text AS cost, coalesce(sum(attempts), 0)::text AS attempts
    FROM usage_by_hour WHERE principal_id = ${caller.name}`.execute(db);
  const { cost, attempts } = found.rows[0] ?? { cost: '0', attempts: '0' };
  return BigInt(cost) === ledger && Number(attempts) === count
    ? []
    : [`the roll-ups by hour have ${attempts} attempts, ${cost} nano-USD; the rows ${count}, ${ledger}`];
}
