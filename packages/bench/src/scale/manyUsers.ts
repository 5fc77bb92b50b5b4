import { createDb, type Database } from '@weighbridge/database';
import { addEvidence } from '@weighbridge/evidence';
import { decodeBatch, readIdRange, recordUsage } from '@weighbridge/ledger';
import { createTestDatabase } from '@weighbridge/testing';
import pg from 'pg';
import { figure } from '../shared/figures.ts';
import { generateBatches, generateEvents } from '../shared/generateUsage.ts';
import { type ControlPlane, manage, startControlPlane } from '../shared/service.ts';
import type { Lane } from './lane.ts';

const USERS = 20_000;
const OTHERS_EVENTS = 10_000;
const PER_BATCH = 1_000;
const READS = 15;
const DAY_MS = 86_400_000;

/** A tenant that names another user with each request: what the reports of others cost. */
export const manyUsers: Lane = {
  name: 'a tenant with new users',
  size: `${USERS.toLocaleString('en-US')} users of one key in a day`,
  async measure(run, factor, onProgress) {
    const database = await createTestDatabase(run);
    const db = createDb(database.url, { applicationName: 'bench scale', onIdleError: () => {} });
    const client = new pg.Client({ connectionString: database.url });
    try {
      await client.connect();
      const controlPlane = await startControlPlane(run, { DATABASE_URL: database.url });
      try {
        const now = new Date();
        await record(db, now, { from: 0, count: OTHERS_EVENTS, hasNewUsers: false });
        await client.query('VACUUM ANALYZE');
        const before = await reportTimes(controlPlane, now);
        const rowsBefore = await sumRows(client);
        onProgress(`usage of ${USERS * factor} users`);
        await record(db, now, { from: OTHERS_EVENTS, count: USERS * factor, hasNewUsers: true });
        const rows = (await sumRows(client)) - rowsBefore;
        await client.query('VACUUM ANALYZE');
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
    } finally {
      await client.end();
      await db.destroy();
      await database.drop();
    }
  },
};

interface Usage {
  readonly from: number;
  readonly count: number;
  readonly hasNewUsers: boolean;
}

/** Through the ledger's own writer. */
async function record(db: Database, now: Date, { from, count, hasNewUsers }: Usage): Promise<void> {
  const ids = await readIdRange(db);
  for (let at = 0; at < count; at += PER_BATCH) {
    const events = generateEvents(Math.min(PER_BATCH, count - at), now, from + at, hasNewUsers);
    for (const { payload } of generateBatches(events, { producers: 1, eventsPerBatch: PER_BATCH })) {
      await recordUsage(db, decodeBatch(payload, ids), now, addEvidence);
    }
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

async function sumRows(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: number }>(`
    SELECT ((SELECT count(*) FROM usage_by_hour) + (SELECT count(*) FROM usage_by_day))::float8 AS count`);
  return rows[0]?.count ?? 0;
}
