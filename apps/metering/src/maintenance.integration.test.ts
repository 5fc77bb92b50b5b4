import { setTimeout as sleep } from 'node:timers/promises';
import { createDb, type Database } from '@weighbridge/database';
import { newUuid } from '@weighbridge/domain';
import { listProducers, readIdRange, registerProducer } from '@weighbridge/ledger';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually, untilLockWaits, useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { startMaintenance } from './maintenance.ts';
import { createMeteringMetrics } from './meteringMetrics.ts';

const MINUTE_MS = 60_000;
const IDLE_LIMIT_MS = 100;
const logger = createLogger('test');
logger.level = 'silent';
const database = useDatabase();

const announced: unknown[] = [];
const stream = {
  announce: (name: string, payload: Uint8Array) =>
    void announced.push({ name, ...JSON.parse(Buffer.from(payload).toString()) }),
};

/** Runs one round at a given time, and returns the metrics. */
async function roundAt(now: Date, on: Database = database.db): Promise<string> {
  const metrics = createMetrics();
  const maintenance = await startMaintenance(
    { db: on, stream, now: () => now, retentionDays: 400, metrics: createMeteringMetrics(metrics) },
    logger,
  );
  await maintenance.stop();
  return await metrics.text();
}

it('creates the current partition before it resolves, however long metering was down', async () => {
  const inHalfAYear = new Date(Date.now() + 180 * 24 * 60 * MINUTE_MS);
  await roundAt(inHalfAYear);
  const { before } = await readIdRange(database.db);
  expect(before.getTime()).toBeGreaterThan(inHalfAYear.getTime() + 30 * 24 * 60 * MINUTE_MS);
});

it('marks an epoch lost after 25 minutes of silence, and shows it in the metrics', async () => {
  const producerId = newUuid();
  await registerProducer(database.db, { producerId, epoch: newUuid(), name: 'host', now: new Date() });
  const states = async () => (await listProducers(database.db, { limit: 10 })).map(({ state }) => state);

  expect(await roundAt(new Date(Date.now() + 24 * MINUTE_MS))).toMatch(/^weighbridge_producers_open 1$/m);
  expect(await states()).toEqual(['open']);
  const shown = await roundAt(new Date(Date.now() + 26 * MINUTE_MS));
  expect(shown).toMatch(/^weighbridge_producers_lost 1$/m);
  expect(shown).toMatch(/^weighbridge_producers_open 0$/m);
  // By name, for the alert that tells an operator which spool to look for.
  expect(shown).toMatch(
    new RegExp(`^weighbridge_lost_producer_seconds\\{name="host",producer_id="${producerId}"\\} \\d`, 'm'),
  );
  expect(await states()).toEqual(['lost']);
});

it('is not cut off during a slow task on a database that ends idle transactions', async () => {
  const strict = createDb(
    `${database.url}?options=-c%20idle_in_transaction_session_timeout%3D${IDLE_LIMIT_MS}`,
    {
      applicationName: 'test',
      onIdleError: () => {},
    },
  );
  try {
    const shown = await database.db.transaction().execute(async (tx) => {
      // A task waits for this lock, for longer than the limit on idle transactions.
      await sql`LOCK TABLE producers IN ACCESS EXCLUSIVE MODE`.execute(tx);
      const round = roundAt(new Date(), strict);
      await untilLockWaits(database.db);
      await sleep(3 * IDLE_LIMIT_MS);
      return { round };
    });
    expect(await shown.round).not.toMatch(/^weighbridge_ledger_upkeep_failures_total\{.*\} [1-9]/m);
  } finally {
    await strict.destroy();
  }
});

it('announces a threshold that a counter reached without new usage', async () => {
  const now = new Date();
  const counter = {
    window_kind: 'none',
    timezone: 'UTC',
    counter_scope: 'policy',
    counter_since: now,
  } as const;
  const times = { created_at: now, updated_at: now };
  const policy = { id: 'pol_1', name: 'team', enforcement: 'enforce', ...times } as const;
  await database.db
    .insertInto('policies')
    .values({ ...policy, ...counter, limit_nano_usd: 1_000_000n, thresholds: [80] })
    .execute();
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    VALUES ('pol_1/1/0/policy', 'pol_1', 1, 'policy', to_timestamp(0), 900000)`.execute(database.db);
  expect(await roundAt(now)).toMatch(/^weighbridge_budget_thresholds_total\{percent="80"\} 1$/m);
  expect(announced).toMatchObject([
    { name: 'budget_threshold', policy_id: 'pol_1', percent: 80, spent_micro_usd: 900 },
  ]);
  await roundAt(now);
  expect(announced).toHaveLength(1);
});

it('folds more ended windows than one run may, run after run', async () => {
  const count = async (table: 'spend_buckets' | 'spend_by_month') =>
    (await database.db.selectFrom(table).select('policy_id').where('policy_id', '=', 'pol_ended').execute())
      .length;
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT 'pol_ended/1/' || (extract(epoch FROM start) * 1000)::bigint || '/key:key_' || n, 'pol_ended', 1, 'key:key_' || n, start, 1
    FROM generate_series(1, 400) AS n,
      generate_series(date_trunc('month', now(), 'UTC') - interval '70 days', now() - interval '40 days', '1 day') AS start`.execute(
    database.db,
  );
  expect(await count('spend_buckets')).toBeGreaterThan(10_000);
  const maintenance = await startMaintenance(
    {
      db: database.db,
      stream,
      now: () => new Date(),
      retentionDays: 400,
      metrics: createMeteringMetrics(createMetrics()),
    },
    logger,
  );
  expect(await count('spend_buckets')).toBeGreaterThan(0);
  await eventually(async () => expect(await count('spend_buckets')).toBe(0));
  await maintenance.stop();
  expect(await count('spend_by_month')).toBeLessThanOrEqual(3 * 400);
});

it('leaves the tasks to a worker that is running one, and counts failed tasks', async () => {
  const { before } = await readIdRange(database.db);
  const later = new Date(before.getTime() + MINUTE_MS);
  await database.db.transaction().execute(async (tx) => {
    await sql`SELECT pg_advisory_xact_lock(9071336027)`.execute(tx);
    expect(await roundAt(later)).not.toMatch(/^weighbridge_ledger_upkeep_failures_total\{.*\} [1-9]/m);
    expect((await readIdRange(database.db)).before).toEqual(before);
  });
  await database.db.schema.alterTable('producers').renameTo('producers_away').execute();
  expect(await roundAt(later)).toMatch(
    /^weighbridge_ledger_upkeep_failures_total\{task="lost producers"\} 1$/m,
  );
  await database.db.schema.alterTable('producers_away').renameTo('producers').execute();
  await roundAt(later);
  expect((await readIdRange(database.db)).before.getTime()).toBeGreaterThan(before.getTime());
});
