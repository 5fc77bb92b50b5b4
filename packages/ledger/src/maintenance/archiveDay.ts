import {
  type Archive,
  COST,
  type CounterSum,
  type CounterSums,
  countersName,
  type DayManifest,
  type DayWriter,
  digestSums,
  duck,
  type FileBounds,
  manifestJson,
  manifestName,
  nanoFromDecimal,
  STORED_VALUES,
} from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';
import { archivedAmount } from '../buckets/amountIn.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { dropDay } from './dropDay.ts';
import { earlierClock, readLedgerStart, setLockTimeout } from './partitions.ts';

export interface ArchiveRun {
  readonly now: Date;
  /** For how many days at least rows stay in Postgres. */
  readonly hotDays: number;
  /** Of each file, for tests. */
  readonly bounds?: FileBounds;
}

const cost = duck.column(COST);
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const ROWS_AT_A_TIME = 2_000;
const MAX_TEXT_BYTES = 1024 * 1024;
/** Adding up a large day takes minutes. */
const SUM_TIMEOUT_MS = 3_600_000;

/**
 * Moves the oldest day that is old enough from Postgres to the archive; undefined if none is. In this order, so that a crash anywhere
 * loses nothing and counts nothing twice; the next run begins the same day again:
 * 1. Freeze the day: from here on, no row gets an id of it. What arrives late is a row of its own day (`recordLate`).
 * 2. Write its rows into files, and read each file back.
 * 3. Add up what the files count in each counter, and store that and the manifest beside them.
 * 4. In one transaction: compare these sums with those of the rows, delete the rows, and move the sums into opening balances.
 * Others may read the files of the day from 2 on, and we read them from the commit of 4 on.
 */
export async function archiveNextDay(
  db: Database,
  archive: Archive,
  run: ArchiveRun,
): Promise<DayManifest | undefined> {
  const day = await nextDay(db, run);
  if (!day) return undefined;
  await freeze(db, day);
  const manifest = await writeDay(db, archive, day, run.bounds);
  await dropDay(db, manifest, run.now);
  return manifest;
}

/** How many days are due. */
export async function countDueDays(db: Database, run: ArchiveRun): Promise<number> {
  const day = await nextDay(db, run);
  return day ? Math.round((Number(await dueBefore(db, run)) - Number(day)) / DAY_MS) : 0;
}

async function nextDay(db: Database, run: ArchiveRun): Promise<Date | undefined> {
  const start = await readLedgerStart(db);
  const { rows } = await sql<{ day: Date }>`
    SELECT to_timestamp(('x' || lpad(left(replace(event_id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0) AS day
    FROM usage_events WHERE event_id >= uuid_from(${start}) ORDER BY event_id LIMIT 1`.execute(db);
  if (!rows[0]) return undefined;
  const day = new Date(Math.floor(Number(rows[0].day) / DAY_MS) * DAY_MS);
  return day < (await dueBefore(db, run)) ? day : undefined;
}

async function dueBefore(db: Database, { now, hotDays }: ArchiveRun): Promise<Date> {
  const at = await earlierClock(db, now);
  return new Date(Math.floor(at.getTime() / DAY_MS - hotDays) * DAY_MS);
}

/** Waits for transactions that may still write rows of the day: each holds this lock, and reads the floor under it. */
async function freeze(db: Database, day: Date): Promise<void> {
  const start = await readLedgerStart(db);
  await db.transaction().execute(async (tx) => {
    await setLockTimeout(tx);
    await lockCounters(tx, 'exclusive');
    await sql`
      UPDATE ledger_floor SET archive_from = coalesce(archive_from, ${start}),
        archived_before = greatest(archived_before, ${nextOf(day)})`.execute(tx);
  });
}

async function writeDay(
  db: Database,
  archive: Archive,
  day: Date,
  bounds: FileBounds | undefined,
): Promise<DayManifest> {
  const writer = archive.writeDay(day, bounds);
  try {
    await addRows(db, writer, day);
    const files = await writer.finish();
    const sums = await writeCounters(archive, day, files);
    const [total] = await archive.rows(
      files,
      (relation) => duck`SELECT sum(${cost})::VARCHAR AS cost FROM ${relation}`,
      1,
    );
    const manifest: DayManifest = {
      day,
      files,
      sums,
      rows: files.reduce((all, { rows }) => all + rows, 0),
      nanoUsd: nanoFromDecimal(String(total?.cost)),
    };
    // What an earlier try wrote with other bounds is no part of the day.
    const known = new Set([...files.map(({ name }) => name), countersName(day), manifestName(day)]);
    for (const name of await archive.store.list(`${manifestName(day).split('/')[0]}/`)) {
      if (!known.has(name)) await archive.store.remove(name);
    }
    await archive.putText(manifestName(day), manifestJson(manifest));
    return manifest;
  } finally {
    await writer.close();
  }
}

/** By their ids, some at a time: rows of a frozen day don't change. */
async function addRows(db: Database, writer: DayWriter, day: Date): Promise<void> {
  const before = sql`uuid_from(${nextOf(day)})`;
  const earlier = new Date(day.getTime() - HOUR_MS);
  for (let from: RawBuilder<unknown> = sql`event_id >= uuid_from(${day})`; ; ) {
    const { rows } = await sql<{ event_id: string; is_earlier: boolean; json: string }>`
      SELECT event.event_id, event.admitted_at < ${earlier} AS is_earlier, row_to_json(stored)::text AS json
      FROM (
        SELECT * FROM usage_events WHERE ${from} AND event_id < ${before} ORDER BY event_id LIMIT ${ROWS_AT_A_TIME}
      ) AS event
      CROSS JOIN LATERAL (SELECT ${sql.raw(STORED_VALUES)}) AS stored
      ORDER BY event.event_id`.execute(db);
    await writer.add(rows.map(({ json, is_earlier }) => ({ json, isEarlier: is_earlier })));
    const last = rows.at(-1);
    if (!last || rows.length < ROWS_AT_A_TIME) return;
    from = sql`event_id > ${last.event_id}::uuid`;
  }
}

/** Adds up the files by counter, and stores the sums beside them. */
async function writeCounters(archive: Archive, day: Date, files: DayManifest['files']): Promise<CounterSums> {
  return await archive.putLines(countersName(day), async (write) => {
    let lines = '';
    const sums = await digestSums(readCounters(archive, files), async (more) => {
      lines += more;
      if (lines.length < MAX_TEXT_BYTES) return;
      await write(lines);
      lines = '';
    });
    await write(lines);
    return sums;
  });
}

/** What files count in each counter, by DuckDB, in the order of the keys' bytes. */
async function* readCounters(archive: Archive, files: DayManifest['files']): AsyncGenerator<CounterSum[]> {
  const sums = archive.stream(
    files,
    (relation) => duck`
      SELECT bucket_key, sum(${archivedAmount(cost)})::VARCHAR AS cost
      FROM (SELECT unnest(bucket_keys) AS bucket_key, ${cost}, details FROM ${relation}) AS counted
      GROUP BY bucket_key ORDER BY bucket_key`,
    SUM_TIMEOUT_MS,
  );
  for await (const rows of sums) {
    yield rows.map(({ bucket_key, cost }) => ({
      bucket_key: String(bucket_key),
      nano_usd: String(nanoFromDecimal(String(cost))),
    }));
  }
}

function nextOf(day: Date): Date {
  return new Date(day.getTime() + DAY_MS);
}
