import type { Database, Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import {
  MINUTE_MS,
  minuteOf,
  type RefusalBatch,
  type RefusalRow,
  ROWS_PER_KEY_AND_MINUTE,
} from './refusal.ts';
import { recordRefusedBudgets } from './refusedBudgets.ts';

/** Any number that no other advisory lock uses. */
const REFUSALS_LOCK = 6_410_227_915;

/** A key and minute of a batch. */
interface Minute {
  readonly keyId: string;
  readonly startMs: number;
  readonly rows: RefusalRow[];
  /** The refused requests that get no row. */
  counted: RefusalRow | undefined;
  readonly counts: Map<string, number>;
}

/** Records a batch once, however often it arrives. Batches are recorded one after the other, so that no key gets more rows than its share. */
export async function recordRefusals(db: Database, batch: RefusalBatch, now: Date): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(${REFUSALS_LOCK})`.execute(tx);
    if (!(await isNew(tx, batch, now))) return;
    const minutes = byKeyAndMinute(batch.rows);
    await recordRefusedBudgets(tx, batch.rows, now);
    await limitRows(tx, minutes);
    const rows = minutes.flatMap((minute) => minute.rows);
    if (rows.length > 0) await insert(tx, rows);
    for (const minute of minutes) await addCounts(tx, minute);
  });
}

async function isNew(tx: Tx, { producerId, epoch, n }: RefusalBatch, now: Date): Promise<boolean> {
  const result = await sql`
    INSERT INTO refusal_batches AS known (producer_id, epoch, n, received_at)
    VALUES (${producerId}, ${epoch}, ${n}, ${now})
    ON CONFLICT (producer_id, epoch) DO UPDATE SET n = excluded.n, received_at = excluded.received_at
    WHERE known.n < excluded.n`.execute(tx);
  return result.numAffectedRows === 1n;
}

function byKeyAndMinute(rows: readonly RefusalRow[]): Minute[] {
  const minutes = new Map<string, Minute>();
  for (const row of rows) {
    const startMs = minuteOf(row.refused_at);
    const id = `${startMs}/${row.key_id}`;
    const minute: Minute = minutes.get(id) ?? {
      keyId: row.key_id,
      startMs,
      rows: [],
      counted: undefined,
      counts: new Map(),
    };
    minutes.set(id, minute);
    if (row.counts === null) minute.rows.push(row);
    else count(minute, row, Object.entries(row.counts));
  }
  // Always in one order; the lock alone suffices today.
  return [...minutes.values()].sort((a, b) => a.startMs - b.startMs || (a.keyId < b.keyId ? -1 : 1));
}

function count(
  minute: Minute,
  row: RefusalRow,
  counts: readonly (readonly [code: string, count: number])[],
): void {
  minute.counted ??= row;
  addTo(minute.counts, counts);
}

function addTo(sums: Map<string, number>, counts: Iterable<readonly [code: string, count: number]>): void {
  for (const [code, added] of counts) sums.set(code, (sums.get(code) ?? 0) + added);
}

/** What several proxies sent of a key's minute is together no more than one may send. */
async function limitRows(tx: Tx, minutes: readonly Minute[]): Promise<void> {
  for (const minute of minutes) {
    if (minute.rows.length === 0) continue;
    const { rows } = await sql<{ known: number }>`
      SELECT count(*)::integer AS known FROM refused_requests
      WHERE key_id = ${minute.keyId} AND counts IS NULL
        AND refused_at >= ${new Date(minute.startMs)} AND refused_at < ${new Date(minute.startMs + MINUTE_MS)}`.execute(
      tx,
    );
    const left = Math.max(0, ROWS_PER_KEY_AND_MINUTE - (rows[0]?.known ?? 0));
    for (const row of minute.rows.splice(left)) count(minute, row, [[row.code, 1]]);
  }
}

async function insert(tx: Tx, rows: readonly RefusalRow[]): Promise<void> {
  const values = rows.map((row) => ({ ...row, counter: json(row.counter), counts: null }));
  await tx
    .insertInto('refused_requests')
    .values(values)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** At most one row counts a key's minute. */
async function addCounts(tx: Tx, { counted, counts, keyId, startMs }: Minute): Promise<void> {
  if (!counted) return;
  const at = new Date(startMs);
  const known = await tx
    .selectFrom('refused_requests')
    .select(['id', 'counts'])
    .where('key_id', '=', keyId)
    .where('refused_at', '=', at)
    .where('counts', 'is not', null)
    .executeTakeFirst();
  addTo(counts, Object.entries((known?.counts ?? {}) as Record<string, number>));
  const sums = Object.fromEntries(counts);
  if (known) {
    await tx
      .updateTable('refused_requests')
      .set({ counts: json(sums) })
      .where('id', '=', known.id)
      .execute();
    return;
  }
  const row = {
    ...counted,
    refused_at: at,
    request_id: '',
    code: '',
    message: '',
    model_requested: '',
    attempts: 0,
  };
  await tx
    .insertInto('refused_requests')
    .values({ ...row, attribution: '{}', counter: null, counts: json(sums) })
    .execute();
}

function json(value: object | null): string | null {
  return value && JSON.stringify(value);
}
