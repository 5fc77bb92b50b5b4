import { type Archive, ArchiveUnavailableError, DamagedFileError } from '@weighbridge/archive';
import type { S3Fault } from '@weighbridge/mock-vendor/clouds';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DAY_MS, FIRST_DAY, HOT_DAYS, recordGenerated, useBucket } from '../../test/archivedLedger.ts';
import { openMonth, useLedger } from '../../test/ledger.ts';
import { readRequests } from '../requests/requests.ts';
import { readSpendRows } from '../spend/spendBreakdown.ts';
import type { SpendQuery } from '../spend/spendQuery.ts';
import { archiveNextDay, countDueDays } from './archiveDay.ts';
import { pruneArchive } from './pruneArchive.ts';
import { rebuildBuckets } from './rebuild.ts';

const ledger = useLedger();
const bucket = useBucket();
const run = { now: new Date(), hotDays: HOT_DAYS };
const WHOLE: SpendQuery = {
  filter: { from: new Date(Number(FIRST_DAY) - DAY_MS), to: new Date(Date.now() + DAY_MS) },
  groupBy: ['connector', 'user'],
  bucketEdges: [],
};

beforeEach(async () => {
  await openMonth(ledger.db, new Date(Number(FIRST_DAY) - DAY_MS));
});
afterEach(async () => {
  bucket.s3.fault = () => undefined;
  bucket.s3.objects.clear();
  await sql`TRUNCATE ledger_archive_days, ledger_archive_files, late_usage`.execute(ledger.db);
  await sql`UPDATE ledger_floor SET dropped_before = NULL, archive_from = NULL, archived_before = NULL`.execute(
    ledger.db,
  );
});

async function archiveAll(archive: Archive): Promise<void> {
  while (await archiveNextDay(ledger.db, archive, run));
}

/** What a new process reports, and that buckets have it as their opening balance and rows. */
async function report(archive?: Archive) {
  const rows = await readSpendRows(
    ledger.db,
    WHOLE,
    { after: undefined, limit: 1_000 },
    archive ?? (await bucket.open()),
  );
  const { differingBuckets } = await rebuildBuckets(ledger.db, { apply: false });
  expect(differingBuckets).toBe(0);
  return rows;
}

async function manifestedFiles(): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`SELECT name FROM ledger_archive_files ORDER BY name`.execute(
    ledger.db,
  );
  return rows.map(({ name }) => name);
}

const storedFiles = () =>
  [...bucket.s3.objects.keys()]
    .filter((key) => key.endsWith('.parquet'))
    .map((key) => key.slice(8))
    .sort();

it('reads days from a bucket as they were in Postgres, each file once', async () => {
  const { requestIds } = await recordGenerated(ledger.db, 150);
  const before = [await report(), await readRequests(ledger.db, requestIds)];
  await archiveAll(await bucket.open());
  expect(storedFiles()).toEqual(await manifestedFiles());
  const archive = await bucket.open();
  bucket.s3.calls.length = 0;
  for (let time = 0; time < 2; time++) {
    expect([await report(archive), await readRequests(ledger.db, requestIds, archive)]).toEqual(before);
  }
  expect(bucket.s3.calls.length).toBe(storedFiles().length);
  const deleted = await pruneArchive(ledger.db, archive, { now: new Date(), retentionDays: 9 });
  expect(deleted.length).toBeGreaterThan(0);
  for (const day of deleted) {
    expect([...bucket.s3.objects.keys()].join()).not.toContain(day.toISOString().slice(0, 10));
  }
});

it('loses nothing and counts nothing twice whichever call of the bucket fails, and goes on', async () => {
  await recordGenerated(ledger.db, 60);
  const before = await report();
  const faults: S3Fault[] = ['slow down', 'cut', 'denied'];
  for (const fault of faults) {
    for (const at of [1, 2, 3, 4, 5, 7]) {
      let calls = 0;
      bucket.s3.fault = () => (++calls === at ? fault : undefined);
      const failed = await archiveNextDay(ledger.db, await bucket.open(), run).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (calls >= at) expect(failed, `${fault} ${at}`).toBeInstanceOf(ArchiveUnavailableError);
      bucket.s3.fault = () => undefined;
      expect(await report(), `${fault} ${at}`).toEqual(before);
    }
  }
  await archiveAll(await bucket.open());
  expect(await countDueDays(ledger.db, run)).toBe(0);
  expect(await report()).toEqual(before);
  expect(storedFiles()).toEqual(await manifestedFiles());
});

it('keeps all rows while the bucket answers 503, reports them, and fails only what needs archived days', async () => {
  await recordGenerated(ledger.db, 60);
  const before = await report();
  bucket.s3.fault = () => 'slow down';
  const archive = await bucket.open();
  for (let tries = 0; tries < 20; tries++) await expect(archiveAll(archive)).rejects.toThrow('503 SlowDown');
  // No day is archived, so no report needs the bucket.
  expect(await report(archive)).toEqual(before);
  expect(bucket.s3.objects.size).toBe(0);
  bucket.s3.fault = () => undefined;
  await archiveNextDay(ledger.db, archive, run);
  bucket.s3.fault = () => 'slow down';
  await expect(report()).rejects.toThrow(ArchiveUnavailableError);
  // What this process has read before needs no bucket.
  expect(await report(archive)).toEqual(before);
  bucket.s3.fault = () => undefined;
  await archiveAll(archive);
  expect(await report()).toEqual(before);
});

it('refuses a bucket that was restored to another day: a file of another day, an earlier one, or none', async () => {
  await recordGenerated(ledger.db, 60);
  await archiveAll(await bucket.open());
  const before = await report();
  const whole = new Map(bucket.s3.objects);
  const [first = '', second = ''] = storedFiles().map((name) => `archive/${name}`);
  for (const restore of [
    () => bucket.s3.objects.set(first, whole.get(second) ?? Buffer.alloc(0)),
    () => bucket.s3.objects.set(first, Buffer.concat([whole.get(first) ?? Buffer.alloc(0), Buffer.alloc(1)])),
    () => bucket.s3.objects.delete(first),
  ]) {
    restore();
    const failed = await report().catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(DamagedFileError);
    expect(failed).toMatchObject({ file: first.slice(8) });
    bucket.s3.objects.set(first, whole.get(first) ?? Buffer.alloc(0));
  }
  expect(await report()).toEqual(before);
});
