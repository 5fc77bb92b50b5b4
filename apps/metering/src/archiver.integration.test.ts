import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { newUuid } from '@weighbridge/domain';
import { readArchiveState } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { batchOf, event, newSource, useMetering } from '../test/useMetering.ts';
import type { ArchiverConfig } from './archiver.ts';

const DAY_MS = 86_400_000;
const HOT_DAYS = 35;
const metering = useMetering();
let root: string;
let archive: ArchiverConfig;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'weighbridge-archiver-'));
  archive = {
    url: pathToFileURL(join(root, 'archive')).href,
    workDir: join(root, 'work'),
    memoryBytes: 128 * 1024 * 1024,
    bucket: { region: 'us-east-1', endpoint: undefined, cacheBytes: 2 ** 26 },
    hotDays: HOT_DAYS,
  };
  const { db } = metering.database;
  await sql`TRUNCATE ledger_archive_days, ledger_archive_files, ledger_archive_state`.execute(db);
  await sql`UPDATE ledger_floor SET dropped_before = NULL, archive_from = NULL, archived_before = NULL`.execute(
    db,
  );
  const oldest = daysAgo(HOT_DAYS + 3);
  await sql`
    SELECT create_usage_partition(month AT TIME ZONE 'UTC')
    FROM generate_series(date_trunc('month', ${oldest}::timestamptz AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', '1 month') AS month`.execute(
    db,
  );
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** At noon (UTC). */
const daysAgo = (days: number) => new Date((Math.floor(Date.now() / DAY_MS) - days + 0.5) * DAY_MS);

/** Usage of some days ago, as a proxy sent it then. */
function usageOf(days: number) {
  const at = daysAgo(days);
  const ms = at.getTime().toString(16).padStart(12, '0');
  return event({
    eventId: `${ms.slice(0, 8)}-${ms.slice(8)}-7${newUuid().slice(15)}`,
    admittedAtMs: BigInt(at.getTime()),
    settledAtMs: BigInt(at.getTime() + 1),
  });
}

/** Old usage of three days, and new usage of two, in a ledger without an archive. */
async function recordDays(): Promise<void> {
  const days = [HOT_DAYS + 3, HOT_DAYS + 2, HOT_DAYS + 1, 1, 0];
  await metering.publish(batchOf(newSource(), 1, days.map(usageOf)));
  await metering.settled(days.length, 0);
}

const metric = async (name: string) =>
  new RegExp(`^${name} (\\d+)$`, 'm').exec(await metering.metrics.text())?.[1];
const state = () => readArchiveState(metering.database.db);

it('moves the days that are old enough to the archive, once with several workers, and counts the same', async () => {
  await recordDays();
  const before = await metering.spent();
  await metering.restart(undefined, archive);
  const stopOthers = await metering.startWorkers(2);
  try {
    await metering.settled(2, 0);
    await eventually(async () => expect(await state()).toMatchObject({ dueDays: 0, problem: undefined }));
  } finally {
    await stopOthers();
  }
  expect(await metering.spent()).toBe(before);
  const names = await readdir(join(root, 'archive'));
  expect(names.filter((name) => name.startsWith('day='))).toEqual(
    [HOT_DAYS + 3, HOT_DAYS + 2, HOT_DAYS + 1].map(
      (days) => `day=${daysAgo(days).toISOString().slice(0, 10)}`,
    ),
  );
  await eventually(() => expect(metering.metering.degraded()).toBeUndefined());
  // Usage goes on.
  await metering.publish(batchOf(newSource(), 1, [event()]));
  await metering.settled(3, 0);
});

it('keeps the rows while the archive is out of reach, says so in /readyz and metrics, and goes on afterwards', async () => {
  await recordDays();
  const before = await metering.spent();
  const folder = join(root, 'archive');
  // As a mount that failed.
  await writeFile(folder, '');
  await metering.restart(undefined, archive);
  await eventually(async () => {
    expect(await metric('weighbridge_ledger_archive_due_days')).toBe('3');
    expect(await metric('weighbridge_ledger_upkeep_failures_total\\{task="archive"\\}')).toBe('1');
    expect(metering.metering.degraded()).toMatch(
      /^archive of the ledger: archiving fails since \d.*: the folder of the archive is not usable \(E\w+\); rows stay in Postgres; 3 days of the ledger wait to be archived$/,
    );
  });
  await metering.publish(batchOf(newSource(), 1, [event({ costNanoUsd: 0n })]));
  await metering.settled(6, 0);
  expect(await metering.spent()).toBe(before);
  const since = (await state())?.failingSince;
  await metering.restart(undefined, archive);
  await eventually(async () => {
    const { failingSince, ranAt } = (await state()) ?? {};
    expect(failingSince).toEqual(since);
    expect(ranAt?.getTime()).toBeGreaterThan(since?.getTime() ?? 0);
  });
  await metering.restart(async () => {
    await rm(folder);
    await mkdir(folder);
  }, archive);
  await metering.settled(3, 0);
  await eventually(() => expect(metering.metering.degraded()).toBeUndefined());
  await eventually(async () => expect(await metric('weighbridge_ledger_archive_due_days')).toBe('0'));
  expect(await metering.spent()).toBe(before);
});
