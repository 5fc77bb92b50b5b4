import type { Database, Tx } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';
import { AMOUNT } from '../buckets/amountIn.ts';
import { compareSums, type DayRange } from './compareSums.ts';
import { withLedgerMaintenance } from './maintenanceLock.ts';
import { earlierClock, readLedgerStart } from './partitions.ts';
import {
  compareBuckets,
  dropDifferences,
  inSnapshot,
  type RebuildResult,
  readDifferences,
} from './rebuild.ts';

/** What a comparison read, beside what it found. */
export interface NewDaysResult extends RebuildResult {
  /** How many days it read whole. */
  readonly days: number;
}

export interface NewDaysOptions {
  readonly now: Date;
  /** Of the verified days, those verified longest ago are read again, so that each is within so many runs. */
  readonly recheckRuns: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** More parts than these are read as one. */
const MAX_PARTS = 50;

/**
 * Compares as `rebuildBuckets` does, but reads only the rows of days that are new, were changed since they were verified, or are due
 * again; of the others it has the sums by bucket. Each day is read in a snapshot of its own, so nothing is held for long, and what
 * was read stays if it fails midway. Buckets are compared in one snapshot in the end, all of them.
 *
 * A difference of buckets is reported only if it is also there once all days were read again: sums that are kept cause no alarm.
 */
export async function compareNewDays(db: Database, options: NewDaysOptions): Promise<NewDaysResult> {
  return await withLedgerMaintenance(db, async (connection) => {
    const first = await compareOnce(connection, options);
    if (first.differingBuckets === 0 || first.keptDays === 0) return first;
    await forgetDays(connection);
    return await compareOnce(connection, options);
  });
}

async function compareOnce(
  db: Database,
  { now, recheckRuns }: NewDaysOptions,
): Promise<NewDaysResult & { readonly keptDays: number }> {
  const from = await readLedgerStart(db);
  const end = endOfDays(await earlierClock(db, now));
  const trusted = await readTrusted(db);
  const toRead = daysToRead({ from, end, trusted }, recheckRuns);
  let [events, differingHours] = [0n, 0];
  for (const day of toRead) {
    const read = await inSnapshot(db, (tx) => verifyDay(tx, day));
    events += read.events;
    differingHours += read.differing;
  }
  const compared = await inSnapshot(db, (tx) => compareRest(tx, end)).finally(() => dropDifferences(db));
  return {
    ...compared,
    events: events + compared.events,
    differingHours: differingHours + compared.differingHours,
    days: toRead.length,
    keptDays: trusted.filter(({ day }) => !toRead.some((read) => read.getTime() === day.getTime())).length,
  };
}

/** The days before this time are over, and no transaction that counts them as today's can still be running. */
function endOfDays(now: Date): Date {
  return new Date(Math.floor((now.getTime() - HOUR_MS) / DAY_MS) * DAY_MS);
}

interface TrustedDay {
  readonly day: Date;
  readonly verifiedAt: Date;
}

/** The verified days that nothing has changed since. */
async function readTrusted(db: Database): Promise<TrustedDay[]> {
  const { rows } = await sql<TrustedDay>`
    SELECT day, verified_at AS "verifiedAt" FROM ledger_days ${IS_TRUSTED} ORDER BY day`.execute(db);
  return rows;
}

/** Of `ledger_days`. Who announces no days may write for an hour after the last time that it was noticed. */
const IS_TRUSTED = sql`
  WHERE verified_at > (SELECT unannounced_at + interval '1 hour' FROM usage_by_day_since)
    AND NOT EXISTS (SELECT FROM ledger_day_changes AS change WHERE change.day = ledger_days.day)`;

function daysToRead(
  {
    from,
    end,
    trusted,
  }: { readonly from: Date; readonly end: Date; readonly trusted: readonly TrustedDay[] },
  recheckRuns: number,
): Date[] {
  const known = new Set(trusted.map(({ day }) => day.getTime()));
  const days: Date[] = [];
  for (let at = from.getTime(); at < end.getTime(); at += DAY_MS) if (!known.has(at)) days.push(new Date(at));
  const due = [...trusted]
    .sort((a, b) => a.verifiedAt.getTime() - b.verifiedAt.getTime())
    .slice(0, Math.ceil(trusted.length / recheckRuns));
  return [...days, ...due.map(({ day }) => day)];
}

/** Reads a day, and keeps what it counts in each bucket. The day is verified unless its sums differ. */
async function verifyDay(
  tx: Tx,
  day: Date,
): Promise<{ readonly events: bigint; readonly differing: number }> {
  const next = new Date(day.getTime() + DAY_MS);
  await compareSums(tx, { from: day, to: next });
  const differing = await countDifferences(tx);
  await sql`DELETE FROM ledger_day_buckets WHERE day = ${day}`.execute(tx);
  await sql`
    INSERT INTO ledger_day_buckets (day, bucket_key, nano_usd)
    SELECT ${day}, bucket_key, sum(nano) FROM (${bucketsOf({ from: day, to: next })}) AS counted GROUP BY bucket_key`.execute(
    tx,
  );
  await sql`DELETE FROM ledger_days WHERE day = ${day}`.execute(tx);
  const { rows } = await sql<{ events: bigint; cost: string }>`
    SELECT count(*) AS events, coalesce(sum(cost_nano_usd), 0)::text AS cost
    FROM usage_events WHERE ${isIn({ from: day, to: next })}`.execute(tx);
  const { events = 0n, cost = '0' } = rows[0] ?? {};
  if (differing === 0) {
    await sql`
      INSERT INTO ledger_days (day, events, cost_nano_usd, verified_at, snapshot)
      VALUES (${day}, ${events}, ${cost}, transaction_timestamp(), pg_current_snapshot()::text)`.execute(tx);
    await sql`DELETE FROM ledger_day_changes WHERE day = ${day}`.execute(tx);
  }
  return { events, differing };
}

/** Compares all buckets, with what is kept of the trusted days and the rows of the others, and the sums after the last whole day. */
async function compareRest(tx: Tx, end: Date): Promise<RebuildResult> {
  const trusted = await readTrusted(tx);
  const parts = partsBeside(trusted);
  const counted = sql`
    SELECT bucket_key, sum(nano) AS counted
    FROM (${sql.join([...(parts.length > MAX_PARTS ? [bucketsOf({})] : [KEPT, ...parts.map(bucketsOf)])], sql` UNION ALL `)}) AS each
    GROUP BY bucket_key`;
  await compareBuckets(tx, counted);
  await compareSums(tx, { from: end });
  return await readDifferences(
    tx,
    parts.length > MAX_PARTS ? sql`true` : sql`(${sql.join(parts.map(isIn), sql` OR `)})`,
  );
}

const KEPT = sql`
  SELECT bucket_key, nano_usd AS nano FROM ledger_day_buckets JOIN (SELECT day FROM ledger_days ${IS_TRUSTED}) AS trusted USING (day)`;

/** What lies before, between and after some days, in order. */
function partsBeside(days: readonly TrustedDay[]): DayRange[] {
  const parts: DayRange[] = [];
  let from: Date | undefined;
  for (const { day } of days) {
    if (from?.getTime() !== day.getTime()) parts.push({ ...(from && { from }), to: day });
    from = new Date(day.getTime() + DAY_MS);
  }
  return [...parts, from ? { from } : {}];
}

function bucketsOf(part: DayRange): RawBuilder<unknown> {
  return sql`
    SELECT bucket_key, ${AMOUNT} AS nano
    FROM usage_events CROSS JOIN LATERAL unnest(bucket_keys) AS bucket_key
    WHERE ${isIn(part)}`;
}

function isIn({ from, to }: DayRange): RawBuilder<unknown> {
  const after = from ? sql`event_id >= uuid_from(${from})` : sql`true`;
  return to ? sql`(${after} AND event_id < uuid_from(${to}))` : after;
}

async function countDifferences(tx: Tx): Promise<number> {
  const { rows } = await sql<{ count: bigint }>`SELECT count(*) AS count FROM sum_differences`.execute(tx);
  await sql`DROP TABLE sum_differences`.execute(tx);
  return Number(rows[0]?.count);
}

async function forgetDays(db: Database): Promise<void> {
  await sql`DELETE FROM ledger_days`.execute(db);
  await sql`DELETE FROM ledger_day_buckets`.execute(db);
}
