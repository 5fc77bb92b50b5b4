import { eventually, untilLockWaits } from '@weighbridge/testing';
import { sql } from 'kysely';
import { expect, it, vi } from 'vitest';
import { batchOf, event, newSource, useMetering } from '../test/useMetering.ts';

const metering = useMetering();
const { database, publish, settled, spent, startWorkers } = metering;

const appended = async () =>
  (
    await sql<{
      nano: bigint;
    }>`SELECT coalesce(sum(nano_usd), 0)::bigint AS nano FROM appended_spend`.execute(database.db)
  ).rows[0]?.nano;

/** Any merge fails, as with a fault of the database. */
async function breakMerging(): Promise<void> {
  await sql`
    CREATE FUNCTION break_merging() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'broken for the test'; END $$`.execute(database.db);
  await sql`
    CREATE TRIGGER break_merging BEFORE DELETE ON appended_spend FOR EACH ROW EXECUTE FUNCTION break_merging()`.execute(
    database.db,
  );
}
const repair = () => sql`DROP FUNCTION IF EXISTS break_merging CASCADE`.execute(database.db);

it('usage is recorded while merging fails, which a metric shows; then it is merged once', async () => {
  const source = newSource();
  await breakMerging();
  try {
    await publish(batchOf(source, 1, [event(), event()]));
    await eventually(async () => expect(await appended()).toBe(14n));
    await eventually(async () => {
      const text = await metering.metrics.text();
      expect(text).toMatch(/^weighbridge_ledger_upkeep_failures_total\{task="merging of spend"\} [1-9]/m);
      expect(text).toMatch(/^weighbridge_ledger_unmerged_seconds [0-9.]*[1-9]/m);
    });
    expect(await spent()).toBe(0n);
  } finally {
    await repair();
  }
  await settled(2, 0);
  expect(await spent()).toBe(14n);
  await eventually(async () =>
    expect(await metering.metrics.text()).toMatch(/^weighbridge_ledger_unmerged_seconds 0$/m),
  );
});

it('a worker is not ready once merging has failed for a minute, until it works again', async () => {
  await breakMerging();
  const now = performance.now.bind(performance);
  let aheadMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
  try {
    await publish(batchOf(newSource(), 1, [event()]));
    await eventually(async () =>
      expect(await metering.metrics.text()).toMatch(/upkeep_failures_total\{task="merging of spend"\} [1-9]/),
    );
    expect(metering.metering.notReady()).toBeUndefined();
    aheadMs = 60_000;
    expect(metering.metering.notReady()).toMatch(/not merged into its counters/);
    await repair();
    await eventually(async () => expect(metering.metering.notReady()).toBeUndefined());
  } finally {
    vi.restoreAllMocks();
    await repair();
  }
  expect(await spent()).toBe(7n);
});

it('a merge that breaks off in its middle is done once, and a worker that stops leaves nothing to merge', async () => {
  const stopOthers = await startWorkers(2);
  // A merge waits between what it deletes and what it adds.
  await sql`
    CREATE FUNCTION wait_in_merge() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN OLD; END'`.execute(database.db);
  await sql`
    CREATE TRIGGER wait_in_merge AFTER DELETE ON appended_spend FOR EACH ROW EXECUTE FUNCTION wait_in_merge()`.execute(
    database.db,
  );
  try {
    await database.db.transaction().execute(async (tx) => {
      await sql`SELECT pg_advisory_xact_lock(77)`.execute(tx);
      await publish(batchOf(newSource(), 1, [event(), event()]));
      await untilLockWaits(database.db);
      const { rows } = await sql`
        SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 77`.execute(
        database.db,
      );
      expect(rows.length).toBeGreaterThan(0);
    });
    await settled(2, 0);
    expect(await spent()).toBe(14n);
  } finally {
    await sql`DROP FUNCTION wait_in_merge CASCADE`.execute(database.db);
  }
  await publish(batchOf(newSource(), 1, [event()]));
  await eventually(async () => {
    const { rows } = await sql<{ n: bigint }>`SELECT count(*) AS n FROM usage_events`.execute(database.db);
    expect(rows[0]?.n).toBe(3n);
  });
  await stopOthers();
  await metering.restart(async () => {
    expect(await appended()).toBe(0n);
    expect(await spent()).toBe(21n);
  });
});
