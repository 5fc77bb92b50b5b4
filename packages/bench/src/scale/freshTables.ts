import type { Database } from '@weighbridge/database';
import { stopStatistics } from '@weighbridge/testing';
import { sql } from 'kysely';
import { figure } from '../shared/figures.ts';
import { generateEvents } from '../shared/generateUsage.ts';
import type { Lane } from './lane.ts';
import { openLedger, record, withLedger } from './withLedger.ts';

const HOLDERS = 30;
const BATCH_EVENTS = 2_000;
/** Of a round. The first round warms up. */
const BATCHES = 4;
const ROUNDS = 3;

/** What a batch costs where Postgres has no statistics: after an installation, `pg_restore` or `pg_upgrade`. */
export const freshTables: Lane = {
  name: 'tables without statistics',
  size: `batches of ${BATCH_EVENTS.toLocaleString('en-US')}, ${HOLDERS} leases on each budget`,
  measure: (run, factor, onProgress) =>
    withLedger(run, async (db, url) => {
      await stopStatistics(db);
      const now = new Date();
      const round = (at: number) => generateEvents(BATCH_EVENTS * BATCHES, now, at * BATCH_EVENTS * BATCHES);
      await record(db, round(0), { producers: 1, eventsPerBatch: BATCH_EVENTS });
      await leaseAll(db, HOLDERS * factor);
      onProgress('batches without statistics');
      const fresh = await recordRounds(url, round, 1);
      await sql`VACUUM ANALYZE`.execute(db);
      onProgress('batches with statistics');
      const analyzed = await recordRounds(url, round, 1 + ROUNDS);
      return { 'a batch without statistics, of one with them': fresh / analyzed };
    }),
};

/** On connections of their own: a plan that was kept would be of the other state. */
async function recordRounds(
  url: string,
  round: (at: number) => ReturnType<typeof generateEvents>,
  from: number,
): Promise<number> {
  const db = openLedger(url);
  try {
    const times: number[] = [];
    for (let at = 0; at < ROUNDS; at++) {
      const measured = await record(db, round(from + at), { producers: 1, eventsPerBatch: BATCH_EVENTS });
      if (at > 0) times.push(...measured);
    }
    return figure(times).median;
  } finally {
    await db.destroy();
  }
}

/** A lease of each holder on each bucket. The producer of the events holds one too. */
async function leaseAll(db: Database, holders: number): Promise<void> {
  await sql`
    INSERT INTO producers (producer_id, epoch, first_seen_at, last_seen_at, mark_at)
    SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ('00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid,
      now(), now(), now()
    FROM generate_series(1, ${holders}::integer) AS n`.execute(db);
  await sql`
    INSERT INTO budget_leases (bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd)
    SELECT bucket_key, producer_id, epoch, 1, 1000000000000, 0 FROM spend_buckets, producers`.execute(db);
  await sql`UPDATE spend_buckets SET leased_nano_usd = (SELECT count(*) FROM producers) * 1000000000000`.execute(
    db,
  );
}
