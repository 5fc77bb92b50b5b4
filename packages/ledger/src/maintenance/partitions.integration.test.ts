import { randomUUID } from 'node:crypto';
import { createDb, type Database } from '@weighbridge/database';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { beforeEach, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger, uuidAt } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { encodedEvent } from '../../test/usageEvents.ts';
import { decodeEvent } from '../events/decodeUsage.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { readSpend } from '../spend/readSpend.ts';
import { maintainPartitions, readIdRange } from './partitions.ts';
import { rebuildBuckets } from './rebuild.ts';

const ledger = useLedger();
const RETENTION_DAYS = 60;
const month = (text: string) => new Date(`${text}-01T00:00:00Z`);

beforeEach(async () => {
  const { rows } = await sql<{ name: string }>`
    SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'usage_events'::regclass`.execute(
    ledger.db,
  );
  for (const { name } of rows) await sql`DROP TABLE ${sql.table(name)}`.execute(ledger.db);
  await ledger.db.updateTable('ledger_floor').set({ dropped_before: null }).execute();
  await sql`SELECT create_usage_partition('2026-01-15Z'), create_usage_partition('2026-02-15Z'),
    create_usage_partition('2026-03-15Z')`.execute(ledger.db);
});

const eventIn = (n: number, at: string, cost: bigint) => {
  const event = ledgerEvent(n, { cost, policies: [`pol_${n % 3}`], principal: `principal_${n % 2}` });
  return { ...event, row: { ...event.row, event_id: uuidAt(new Date(at)) } };
};
const partitions = async () => {
  const { rows } = await sql<{ name: string }>`
    SELECT inhrelid::regclass::text AS name FROM pg_inherits
    WHERE inhparent = 'usage_events'::regclass ORDER BY 1`.execute(ledger.db);
  return rows.map(({ name }) => name);
};
const spentByKey = async () =>
  new Map(
    (await ledger.db.selectFrom('spend_buckets').selectAll().orderBy('bucket_key').execute()).map((row) => [
      row.bucket_key,
      row.spent_nano_usd,
    ]),
  );

it('partitions are created two months ahead, without a gap, however long maintenance was down', async () => {
  expect(
    await maintainPartitions(ledger.db, { now: new Date('2026-06-15T12:00:00Z'), retentionDays: 400 }),
  ).toEqual([]);
  expect(await partitions()).toEqual(
    ['01', '02', '03', '04', '05', '06', '07', '08'].map((number) => `usage_events_2026_${number}`),
  );
  expect(await readIdRange(ledger.db)).toEqual({ from: month('2026-01'), before: month('2026-09') });
});

it('dropping months keeps every bucket equal to its opening balance plus the remaining rows', async () => {
  const events = Array.from({ length: 120 }, (_, n) =>
    eventIn(n, `2026-0${1 + (n % 3)}-1${n % 10}T08:00:00Z`, BigInt(n * 7 + 1)),
  );
  await recordUsage(ledger.db, eventsOnly(events));
  const before = await spentByKey();
  const now = new Date('2026-04-29T00:00:00Z');
  expect(await maintainPartitions(ledger.db, { now, retentionDays: RETENTION_DAYS })).toEqual([
    'usage_events_2026_01',
  ]);
  expect(
    await maintainPartitions(ledger.db, {
      now: new Date('2026-05-01T00:00:00Z'),
      retentionDays: RETENTION_DAYS,
    }),
  ).toEqual(['usage_events_2026_02']);
  expect(await spentByKey()).toEqual(before);
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject({
    events: 40n,
    differingBuckets: 0,
    differenceNanoUsd: 0n,
  });
  const opened = await ledger.db.selectFrom('spend_buckets').select('opening_nano_usd').execute();
  expect(opened.some(({ opening_nano_usd }) => opening_nano_usd > 0n)).toBe(true);
});

it("nothing is dropped by a clock ahead of the database's, however far", async () => {
  const present = new Date();
  await sql`SELECT create_usage_partition(${present})`.execute(ledger.db);
  await recordUsage(ledger.db, eventsOnly([eventIn(1, present.toISOString(), 5n)]));
  const now = new Date(present.getTime() + 800 * 86_400_000);
  await maintainPartitions(ledger.db, { now, retentionDays: 400 });
  expect(await ledger.db.selectFrom('usage_events').select('cost_nano_usd').execute()).toHaveLength(1);
  expect((await readIdRange(ledger.db)).from.getTime()).toBeLessThanOrEqual(present.getTime());
});

it('a clock that is decades ahead creates partitions for a few years only', async () => {
  await maintainPartitions(ledger.db, { now: new Date('9000-01-01T00:00:00Z'), retentionDays: 400 });
  const { before } = await readIdRange(ledger.db);
  expect(before.getTime()).toBeLessThan(Date.now() + 6 * 366 * 86_400_000);
});

it('a counter started after a drop reports from when it counts; one started before includes the dropped rows', async () => {
  const db = ledger.db;
  const windowStart = new Date(0);
  for (const [id, since] of [
    ['pol_before', '2026-01-20'],
    ['pol_after', '2026-04-01'],
  ] as const) {
    await insertPolicy(db, id, { window_kind: 'none', created_at: new Date(since) });
  }
  const from = async (policyId: string) =>
    (await readSpend(db, { policyId, counterVersion: 1, subject: 'policy', windowStartMs: 0n }, 'ada'))
      .principalSpentFrom;
  expect([await from('pol_before'), await from('pol_after')]).toEqual([windowStart, windowStart]);
  await maintainPartitions(db, { now: new Date('2026-04-05T00:00:00Z'), retentionDays: RETENTION_DAYS });
  expect([await from('pol_before'), await from('pol_after')]).toEqual([windowStart, month('2026-02')]);
});

it('a late event from before the oldest partition is refused before any SQL', async () => {
  const late = encodedEvent({ eventId: uuidAt(new Date('2026-01-31T23:59:59Z')), principalId: 'ada' });
  expect(decodeEvent(late, undefined, await readIdRange(ledger.db)).refused).toEqual([]);
  await maintainPartitions(ledger.db, {
    now: new Date('2026-04-05T00:00:00Z'),
    retentionDays: RETENTION_DAYS,
  });
  const ids = await readIdRange(ledger.db);
  expect(ids.from).toEqual(month('2026-02'));
  expect(decodeEvent(late, undefined, ids)).toMatchObject({
    events: [],
    refused: [{ principalId: 'ada', reason: expect.stringContaining('is before 2026-02-01') }],
  });
  const future = encodedEvent({ eventId: uuidAt(ids.before) });
  expect(decodeEvent(future, undefined, ids).refused).toMatchObject([
    { reason: expect.stringContaining('not before 2026-07-01') },
  ]);
  const last = encodedEvent({ eventId: uuidAt(new Date(ids.before.getTime() - 1)) });
  expect(decodeEvent(last, undefined, ids).events).toHaveLength(1);
});

it('dropping loses nothing that is written at the same time', async () => {
  let stopped = false;
  let written = 0;
  const writers = [0, 1, 2].map(async (writer) => {
    for (let at = 0; !stopped; at++) {
      const events = Array.from({ length: 20 }, (_, n) =>
        // Some are for the month that is being dropped.
        eventIn(n, `2026-0${at % 4 === 0 ? 1 : 3}-1${writer}T08:00:00Z`, 1n),
      );
      try {
        const { newEvents } = await recordUsage(ledger.db, eventsOnly(events));
        written += newEvents;
      } catch {
        // The partition is gone, or the transaction was aborted by a deadlock: none of it was written.
      }
    }
  });
  const untilMoreIsWritten = () => {
    const before = written;
    return eventually(() => expect(written).toBeGreaterThan(before), { intervalMs: 1 });
  };
  for (;;) {
    await untilMoreIsWritten();
    try {
      await maintainPartitions(ledger.db, {
        now: new Date('2026-04-05T00:00:00Z'),
        retentionDays: RETENTION_DAYS,
      });
      break;
    } catch {
      // Too busy: retry, as maintenance does.
    }
  }
  await untilMoreIsWritten();
  stopped = true;
  await Promise.all(writers);
  expect(await partitions()).not.toContain('usage_events_2026_01');
  const { rows } = await sql<{ spent: bigint }>`
    SELECT sum(spent_nano_usd)::bigint AS spent FROM spend_buckets WHERE subject = 'policy'`.execute(
    ledger.db,
  );
  expect(rows[0]?.spent).toBe(BigInt(written));
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject({ differingBuckets: 0 });
});

const APP = `weighbridge_app_${randomUUID().replaceAll('-', '')}`;

it('a role that may not change the schema maintains the months, and drops none that is retained', async () => {
  await sql`CREATE ROLE ${sql.id(APP)}`.execute(ledger.db);
  try {
    // As docs/operations.md has it.
    await sql`GRANT USAGE ON SCHEMA public TO ${sql.id(APP)}`.execute(ledger.db);
    await sql`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${sql.id(APP)}`.execute(
      ledger.db,
    );
    await sql`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO ${sql.id(APP)}`.execute(ledger.db);
    await sql`ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ${sql.id(APP)}`.execute(
      ledger.db,
    );
    await recordUsage(ledger.db, eventsOnly([eventIn(1, '2026-01-11T08:00:00Z', 5n)]));
    await asRole(APP, async (db) => {
      await expect(sql`CREATE TABLE mine (a int)`.execute(db)).rejects.toThrow('permission denied');
      await expect(sql`DROP TABLE usage_events_2026_02`.execute(db)).rejects.toThrow('must be owner');
      await expect(sql`SELECT drop_usage_partition('2026-02-15Z')`.execute(db)).rejects.toThrow('retention');
      const now = new Date('2026-04-29T00:00:00Z');
      expect(await maintainPartitions(db, { now, retentionDays: RETENTION_DAYS })).toEqual([
        'usage_events_2026_01',
      ]);
      await recordUsage(db, eventsOnly([eventIn(2, '2026-05-11T08:00:00Z', 7n)]));
    });
    expect(await partitions()).toEqual(['02', '03', '04', '05', '06'].map((n) => `usage_events_2026_${n}`));
    expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject({ differingBuckets: 0 });
  } finally {
    await sql`DROP OWNED BY ${sql.id(APP)}`.execute(ledger.db);
    await sql`DROP ROLE ${sql.id(APP)}`.execute(ledger.db);
  }
});

it('nobody else may create or drop a month', async () => {
  await sql`CREATE ROLE ${sql.id(APP)}`.execute(ledger.db);
  try {
    await sql`GRANT USAGE ON SCHEMA public TO ${sql.id(APP)}`.execute(ledger.db);
    await ledger.db
      .updateTable('ledger_floor')
      .set({ dropped_before: month('2026-04') })
      .execute();
    await asRole(APP, async (db) => {
      for (const call of [
        sql`SELECT drop_usage_partition('2026-01-15Z')`,
        sql`SELECT create_usage_partition('2027-01-15Z')`,
      ])
        await expect(call.execute(db)).rejects.toThrow('permission denied for function');
    });
  } finally {
    await sql`DROP OWNED BY ${sql.id(APP)}`.execute(ledger.db);
    await sql`DROP ROLE ${sql.id(APP)}`.execute(ledger.db);
  }
});

async function asRole(role: string, work: (db: Database) => Promise<void>): Promise<void> {
  const url = new URL(ledger.url);
  url.searchParams.set('options', `-c role=${role}`);
  const db = createDb(url.href, { applicationName: 'as-role', onIdleError: () => {} });
  try {
    await work(db);
  } finally {
    await db.destroy();
  }
}
