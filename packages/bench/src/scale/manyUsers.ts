import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { figure } from '../shared/figures.ts';
import { generateEvents } from '../shared/generateUsage.ts';
import { type ControlPlane, manage, startControlPlane } from '../shared/service.ts';
import type { Lane } from './lane.ts';
import { record, withLedger } from './withLedger.ts';

const USERS = 20_000;
const OTHERS_EVENTS = 10_000;
const PER_BATCH = 1_000;
const READS = 15;
const DAY_MS = 86_400_000;

/** A tenant that names another user with each request: what the reports of others cost. */
export const manyUsers: Lane = {
  name: 'a tenant with new users',
  size: `${USERS.toLocaleString('en-US')} users of one key in a day`,
  measure: (run, factor, onProgress) =>
    withLedger(run, async (db, url) => {
      const controlPlane = await startControlPlane(run, { DATABASE_URL: url });
      try {
        const now = new Date();
        await recordInParts(db, now, { from: 0, count: OTHERS_EVENTS, hasNewUsers: false });
        await sql`VACUUM ANALYZE`.execute(db);
        const before = await reportTimes(controlPlane, now);
        const rowsBefore = await sumRows(db);
        onProgress(`usage of ${USERS * factor} users`);
        await recordInParts(db, now, { from: OTHERS_EVENTS, count: USERS * factor, hasNewUsers: true });
        const rows = (await sumRows(db)) - rowsBefore;
        await sql`VACUUM ANALYZE`.execute(db);
        const after = await reportTimes(controlPlane, now);
        return {
          'rows of sums': rows,
          "another one's report by model, of before": after.byModel / before.byModel,
          "another one's report by user, of before": after.byUser / before.byUser,
          "everyone's total, of before": after.total / before.total,
        };
      } finally {
        await controlPlane.process.stop();
      }
    }),
};

interface Usage {
  readonly from: number;
  readonly count: number;
  readonly hasNewUsers: boolean;
}

async function recordInParts(db: Database, now: Date, { from, count, hasNewUsers }: Usage): Promise<void> {
  for (let at = 0; at < count; at += PER_BATCH) {
    const events = generateEvents(Math.min(PER_BATCH, count - at), now, from + at, { hasNewUsers });
    await record(db, events, { producers: 1, eventsPerBatch: PER_BATCH });
  }
}

/** Medians in milliseconds, with a warm cache. */
async function reportTimes(controlPlane: ControlPlane, now: Date) {
  const range = {
    from: new Date(now.getTime() - DAY_MS).toISOString(),
    to: new Date(now.getTime() + DAY_MS).toISOString(),
  };
  const read = async (query: Readonly<Record<string, string>>) => {
    const path = `/api/v1/spend?${new URLSearchParams({ ...range, ...query })}`;
    const times: number[] = [];
    for (let at = 0; at < READS; at++) {
      const began = performance.now();
      await manage(controlPlane, 'GET', path);
      times.push(performance.now() - began);
    }
    return figure(times.slice(1)).median;
  };
  return {
    byModel: await read({ group_by: 'model', principal_id: 'principal-7' }),
    byUser: await read({ group_by: 'user', principal_id: 'principal-7' }),
    total: await read({ group_by: 'model' }),
  };
}

async function sumRows(db: Database): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    SELECT ((SELECT count(*) FROM usage_by_hour) + (SELECT count(*) FROM usage_by_day))::float8 AS count`.execute(
    db,
  );
  return rows[0]?.count ?? 0;
}
