import { POLICY_SUBJECT } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { answerLeaseCalls, foldWindows, pruneLeases } from '@weighbridge/ledger';
import { sql } from 'kysely';
import {
  DEPARTMENTS,
  type GeneratedEvent,
  generateBatches,
  generateEvents,
  TEAMS,
} from '../shared/generateUsage.ts';
import type { Lane } from './lane.ts';
import { openMonths, record, withLedger } from './withLedger.ts';

const DAYS = 36;
const EVENTS_PER_DAY = 1_000;
const DAY_MS = 86_400_000;
const CALLS_AT_ONCE = 100;
/** As metering's maintenance does. */
const LEASES_AFTER_MS = 2 * DAY_MS;
const FOLD_AFTER_MS = 3 * DAY_MS;

/** Budgets with a window a day: what is left of them after weeks, months and a year. */
export const endedWindows: Lane = {
  name: 'windows that ended',
  size: `${DAYS} days, about 1,000 budgets with a window a day`,
  measure: (run, factor, onProgress) =>
    withLedger(run, async (db) => {
      const days = DAYS * factor;
      const begin = Math.floor(Date.now() / DAY_MS - days) * DAY_MS;
      await openMonths(db, new Date(begin));
      await insertPolicies(db);
      for (let at = 0; at < days; at++) {
        if (at % DAYS === 0) onProgress(`day ${at}: ${JSON.stringify(await readSizes(db))}`);
        const noon = new Date(begin + (at + 0.5) * DAY_MS);
        await useDay(db, noon, at);
        await endDay(db, noon.getTime() + DAY_MS / 2);
      }
      return await readSizes(db);
    }),
};

/** Each budget is leased what is then spent of it. */
async function useDay(db: Database, now: Date, day: number): Promise<void> {
  const events = generateEvents(EVENTS_PER_DAY, now, day * EVENTS_PER_DAY, { window: 'day' });
  const [batch] = generateBatches(events, { producers: 1, eventsPerBatch: EVENTS_PER_DAY });
  if (!batch) throw new Error('a day without usage');
  const calls = spentByLease(events);
  for (let at = 0; at < calls.length; at += CALLS_AT_ONCE) {
    const { producerId, epoch } = batch;
    await answerLeaseCalls(db, { producerId, epoch, calls: calls.slice(at, at + CALLS_AT_ONCE), now });
  }
  await record(db, events, { producers: 1, eventsPerBatch: EVENTS_PER_DAY });
}

function spentByLease(events: readonly GeneratedEvent[]) {
  const spent = new Map<string, { bucket: GeneratedEvent['buckets'][number]; nano: bigint }>();
  for (const { buckets, costNanoUsd } of events) {
    // A principal's own counter below a department is counted in, and not leased.
    for (const bucket of buckets.filter(
      ({ policyId, subject }) => policyId.includes('team') || subject === POLICY_SUBJECT,
    )) {
      const nano = (spent.get(bucket.key)?.nano ?? 0n) + costNanoUsd;
      spent.set(bucket.key, { bucket, nano });
    }
  }
  return [...spent.values()].map(({ bucket: { policyId, subject, windowStart }, nano }) => ({
    bucket: { policyId, subject, counterVersion: 1, windowStartMs: BigInt(windowStart.getTime()) },
    ...{ seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: nano, minimumNanoUsd: nano },
  }));
}

async function endDay(db: Database, endMs: number): Promise<void> {
  const leasesBefore = new Date(endMs - LEASES_AFTER_MS);
  while (await pruneLeases(db, { closedBefore: leasesBefore }));
  const ended = { leasesBefore, foldBefore: new Date(endMs - FOLD_AFTER_MS) };
  let after: string | undefined;
  do after = await foldWindows(db, { ...ended, after });
  while (after !== undefined);
}

async function insertPolicies(db: Database): Promise<void> {
  await sql`
    INSERT INTO policies (id, name, enforcement, window_kind, timezone, limit_nano_usd, counter_scope, counter_since,
      created_at, updated_at)
    SELECT id, id, 'enforce', 'day', 'UTC', 1000000000000000, scope, to_timestamp(0), to_timestamp(0), to_timestamp(0)
    FROM (
      SELECT 'policy_team_' || n AS id, 'principal' AS scope FROM generate_series(0, ${TEAMS - 1}::integer) AS n
      UNION ALL
      SELECT 'policy_department_' || n, 'policy' FROM generate_series(0, ${DEPARTMENTS - 1}::integer) AS n
    ) AS made`.execute(db);
}

async function readSizes(db: Database): Promise<Readonly<Record<string, number>>> {
  const { rows } = await sql<Record<string, number>>`
    SELECT (SELECT count(*) FROM spend_buckets)::float8 AS "rows of windows",
      (SELECT count(*) FROM budget_leases)::float8 AS "rows of leases",
      (SELECT count(*) FROM spend_by_month)::float8 AS "rows of months",
      (pg_total_relation_size('spend_buckets') + pg_total_relation_size('budget_leases')
        + pg_total_relation_size('spend_by_month')) / 1048576.0::float8 AS "MiB of them"`.execute(db);
  return rows[0] ?? {};
}
