import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Archive, type ArchiveStore, DamagedFileError, LEDGER_COLUMNS } from '@weighbridge/archive';
import { newUuid } from '@weighbridge/domain';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  DAY_MS,
  FIRST_DAY,
  HOT_DAYS,
  recordGenerated,
  requestIdAt,
  useArchive,
} from '../../test/archivedLedger.ts';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth, useLedger } from '../../test/ledger.ts';
import type { LedgerEvent } from '../events/usage.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { findArchivedAttempt } from '../requests/archivedRequests.ts';
import { correctedCost, recordCorrection } from '../requests/corrections.ts';
import { findRequest } from '../requests/requests.ts';
import { readSpendCompleteness } from '../spend/readSpendCompleteness.ts';
import { readSpendRows } from '../spend/spendBreakdown.ts';
import type { SpendQuery } from '../spend/spendQuery.ts';
import { archiveNextDay, countDueDays } from './archiveDay.ts';
import { pruneArchive } from './pruneArchive.ts';
import { rebuildBuckets } from './rebuild.ts';

const ledger = useLedger();
const opened = useArchive();
const run = { now: new Date(), hotDays: HOT_DAYS };
const WHOLE: SpendQuery = {
  filter: { from: new Date(Number(FIRST_DAY) - DAY_MS), to: new Date(Date.now() + DAY_MS) },
  groupBy: ['connector'],
  bucketEdges: [],
};

beforeEach(async () => {
  await openMonth(ledger.db, new Date(Number(FIRST_DAY) - DAY_MS));
});
afterEach(async () => {
  await sql`TRUNCATE ledger_archive_days, ledger_archive_files, late_usage`.execute(ledger.db);
  await sql`UPDATE ledger_floor SET dropped_before = NULL, archive_from = NULL, archived_before = NULL`.execute(
    ledger.db,
  );
});

async function archiveAll(archive: Archive = opened.archive): Promise<void> {
  while (await archiveNextDay(ledger.db, archive, run));
}

/** What reports say was spent, and that buckets have it as their opening balance and rows. */
async function spent(): Promise<bigint> {
  const rows = await readSpendRows(ledger.db, WHOLE, { after: undefined, limit: 100 }, opened.archive);
  const { differingBuckets } = await rebuildBuckets(ledger.db, { apply: false });
  expect(differingBuckets).toBe(0);
  return rows.reduce((sum, { cost }) => sum + cost, 0n);
}

/** A store with which one call fails. */
function failing(name: 'put' | 'fetch', at: number): Archive {
  let calls = 0;
  const { store } = opened.archive;
  const broken: ArchiveStore = {
    ...store,
    [name]: async (...given: [never, never]) => {
      if (++calls === at) throw new Error('503');
      return await store[name](...given);
    },
  };
  return opened.archive.with(broken);
}

it('loses nothing and counts nothing twice if it fails anywhere, and goes on', async () => {
  await recordGenerated(ledger.db, 120);
  const before = await spent();
  for (const name of ['put', 'fetch'] as const) {
    for (const at of [1, 2, 3, 4, 5]) {
      await archiveAll(failing(name, at)).catch(() => {});
      expect(await spent(), `${name} ${at}`).toBe(before);
    }
  }
  await archiveAll();
  expect(await countDueDays(ledger.db, run)).toBe(0);
  expect(await spent()).toBe(before);
  // Nothing of a try is left beside the files that count.
  const { rows } = await sql<{ name: string }>`SELECT name FROM ledger_archive_files`.execute(ledger.db);
  const parquet = (await readdir(opened.folder, { recursive: true })).filter((name) =>
    name.endsWith('.parquet'),
  );
  expect(parquet.sort()).toEqual(rows.map(({ name }) => name).sort());
});

it('keeps a day whose rows are not those of its files', async () => {
  const { db } = ledger;
  await recordGenerated(db, 40);
  await recordUsage(db, eventsOnly([ledgerEvent(2, { admittedAt: FIRST_DAY })]));
  const before = await spent();
  const { attribution, details = null, ...row } = ledgerEvent(1, { cost: 7n, admittedAt: FIRST_DAY }).row;
  const stray = { ...row, attribution, details, bucket_keys: ['pol_a/1/0/policy'] };
  const eventId = stray.event_id;
  const first = ledgerEvent(2, { admittedAt: FIRST_DAY }).row.event_id;
  // As an earlier release would that knows no archive, and as a person might.
  const insert = () => db.insertInto('usage_events').values(stray).execute();
  const raise = (by: number) =>
    sql`UPDATE usage_events SET cost_nano_usd = cost_nano_usd + ${by}::bigint WHERE event_id = ${first}`.execute(
      db,
    );
  for (const [change, undo] of [
    [insert, () => sql`DELETE FROM usage_events WHERE event_id = ${eventId}`.execute(db)],
    [() => raise(1), () => raise(-1)],
  ] as const) {
    const { store } = opened.archive;
    const meanwhile = opened.archive.with({
      ...store,
      list: async (prefix) => {
        await change();
        return await store.list(prefix);
      },
    });
    await expect(archiveNextDay(db, meanwhile, run)).rejects.toThrow('or their sums differ');
    const { rows } = await sql<{ days: bigint }>`SELECT count(*) AS days FROM ledger_archive_days`.execute(
      db,
    );
    expect(rows[0]?.days).toBe(0n);
    await undo();
  }
  await archiveAll();
  expect(await spent()).toBe(before);
});

it('refuses a file that was changed, cut, or belongs to another day', async () => {
  await recordGenerated(ledger.db, 60);
  await archiveAll();
  const { rows } = await sql<{ name: string }>`SELECT name FROM ledger_archive_files ORDER BY name`.execute(
    ledger.db,
  );
  const [first = '', second = ''] = rows.map(({ name }) => join(opened.folder, name));
  const whole = await readFile(first);
  const read = () => readSpendRows(ledger.db, WHOLE, { after: undefined, limit: 100 }, opened.archive);
  const changed = Buffer.from(whole);
  changed[whole.length >> 1] = (changed[whole.length >> 1] ?? 0) ^ 1;
  for (const damage of [
    () => writeFile(first, changed),
    () => writeFile(first, whole.subarray(0, whole.length - 1)),
    () => copyFile(second, first),
  ]) {
    await damage();
    await expect(read()).rejects.toThrow(DamagedFileError);
  }
  await writeFile(first, whole);
  expect((await read()).length).toBeGreaterThan(0);
});

/** An event of the first day, as a proxy numbers it. */
function numbered(n: number, cost: bigint): LedgerEvent {
  const { row, ...event } = ledgerEvent(n, { cost, admittedAt: FIRST_DAY, request: REQUEST });
  return { ...event, row: { ...row, ...PRODUCER, shard: 0, n: BigInt(n) } };
}
const REQUEST = requestIdAt(FIRST_DAY);
const PRODUCER = { producer_id: newUuid(), epoch: newUuid() };
const received = (firstN: number, count: number) => [
  { producerId: PRODUCER.producer_id, epoch: PRODUCER.epoch, shard: 0, firstN: BigInt(firstN), count },
];

it('records what arrives late for an archived day once, as a row of today that names the day', async () => {
  const { db } = ledger;
  const [early, late] = [numbered(1, 5n), numbered(2, 11n)];
  await recordUsage(db, { events: [early], refused: [], received: received(1, 1) });
  await archiveAll();
  const both = { events: [early, late], refused: [], received: received(1, 2) };
  // Delivered again, by two workers at once, and once more.
  const [a, b] = await Promise.all([recordUsage(db, both), recordUsage(db, both)]);
  expect(a.newEvents + b.newEvents).toBe(1);
  expect((await recordUsage(db, both)).newEvents).toBe(0);
  expect(await spent()).toBe(16n);
  const rows = await db.selectFrom('usage_events').select(['event_id', 'admitted_at']).execute();
  expect(rows).toEqual([
    { event_id: expect.not.stringContaining(late.row.event_id), admitted_at: FIRST_DAY },
  ]);
  const request = await findRequest(db, early.row.request_id, opened.archive);
  expect(request?.attempts.map((row) => row.cost_nano_usd)).toEqual([5n, 11n]);
});

it('corrects an archived attempt by a row of today, once, and never below its cost', async () => {
  const { db } = ledger;
  const event = numbered(1, 50n);
  await recordUsage(db, { events: [event], refused: [], received: received(1, 1) });
  await archiveAll();
  const of = { requestId: event.row.request_id, eventId: event.row.event_id };
  const archived = await findArchivedAttempt(db, opened.archive, of);
  const correctionId = newUuid();
  for (let time = 0; time < 2; time++) {
    const cost = await db.transaction().execute(async (tx) => {
      await recordCorrection(tx, {
        ...of,
        correctionId,
        amountNanoUsd: -20n,
        reason: 'a test',
        archived,
        now: new Date(),
      });
      return await correctedCost(tx, of.eventId, archived);
    });
    expect(cost).toBe(30n);
  }
  expect(await spent()).toBe(30n);
  const request = await findRequest(db, of.requestId, opened.archive);
  expect(request?.corrections.map(({ corrects, cost_nano_usd }) => [corrects, cost_nano_usd])).toEqual([
    [of.eventId, -20n],
  ]);
});

it('deletes the files of days beyond the retention period, says so in the audit log, and reports that they lack', async () => {
  const { db } = ledger;
  await recordGenerated(db, 60);
  await archiveAll();
  const query = { ...WHOLE, filter: { ...WHOLE.filter, from: FIRST_DAY } };
  // Nothing is lacking before, but for what proxies may still send.
  const until = async (archive?: Archive) =>
    (
      await readSpendCompleteness(
        db,
        { ...query, filter: { ...query.filter, to: new Date(Date.now() - 1) } },
        archive,
      )
    ).isComplete;
  expect([await until(), await until(opened.archive)]).toEqual([false, true]);
  const deleted = await pruneArchive(db, opened.archive, { now: new Date(), retentionDays: 9 });
  expect(deleted.length).toBeGreaterThan(0);
  const kept = (await readdir(opened.folder, { recursive: true })).filter((name) =>
    name.endsWith('.parquet'),
  );
  for (const day of deleted) expect(kept.join()).not.toContain(day.toISOString().slice(0, 10));
  const { rows } = await sql<{ resource_id: string }>`
    SELECT resource_id FROM audit_log WHERE action = 'ledger.archived_day_deleted' ORDER BY resource_id`.execute(
    db,
  );
  expect(rows.map((row) => row.resource_id)).toEqual(deleted.map((day) => day.toISOString().slice(0, 10)));
  expect(await until(opened.archive)).toBe(false);
  await readSpendRows(db, WHOLE, { after: undefined, limit: 100 }, opened.archive);
});

it('archives every column of the ledger', async () => {
  const { rows } = await sql<{ name: string }>`
    SELECT column_name AS name FROM information_schema.columns
    WHERE table_name = 'usage_events' AND table_schema = current_schema()`.execute(ledger.db);
  expect([...LEDGER_COLUMNS].sort()).toEqual(rows.map(({ name }) => name).sort());
});
