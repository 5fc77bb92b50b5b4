import { request } from 'node:http';
import { createDb } from '@weighbridge/database';
import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { type Arrivals, startArrivals } from './arrivals.ts';
import { checkBuckets } from './checkLedger.ts';
import { generateLedger } from './generateLedger.ts';
import { loadLine } from './machine.ts';
import { residentMiB } from './residentMemory.ts';
import { type ControlPlane, startControlPlane } from './service.ts';

const SAMPLE_MS = 200;

export interface RebuildOptions {
  readonly events: number;
  /** How many new ones are recorded each second meanwhile. */
  readonly rate: number;
  readonly onProgress: (text: string) => void;
}

export interface RebuildFigures {
  readonly events: number;
  /** With nothing but events to begin with: every counter and every sum by hour is made anew. */
  readonly mending: RebuildRun;
  /** Again, when all is well. */
  readonly comparing: RebuildRun;
  readonly load: string;
}

interface RebuildRun {
  readonly seconds: number;
  readonly differingBuckets: number;
  readonly differingHours: number;
  readonly arrivals: Omit<Arrivals, 'spent'>;
  /** MiB at most: of the control plane, and what its backends of Postgres have of their own. */
  readonly controlPlaneMiB: number;
  readonly postgresMiB: number;
  /** What Postgres wrote to temporary files. */
  readonly temporaryMiB: number;
}

/**
 * `POST /api/v1/ledger/rebuild` on a ledger of so many events whose counters are all missing, while new ones are recorded;
 * and once more, when nothing differs. Afterwards every counter has to be what arithmetic outside of the database says.
 */
export async function measureRebuild(run: TestRun, options: RebuildOptions): Promise<RebuildFigures> {
  const { events, rate, onProgress } = options;
  const database = await createTestDatabase(run);
  const db = createDb(database.url, { applicationName: 'bench arrivals', onIdleError: () => {} });
  try {
    const generated = await generateLedger(database.url, events, new Date(), onProgress);
    const controlPlane = await startControlPlane(run, { DATABASE_URL: database.url });
    try {
      const expected = new Map(generated.spent);
      const measure = async (apply: boolean): Promise<RebuildRun> => {
        onProgress(apply ? 'rebuilding' : 'comparing');
        const arriving = startArrivals(db, rate);
        const measured = await rebuildWatched(database.url, controlPlane, apply).catch(async (error) => {
          await arriving.stop();
          throw error;
        });
        const { spent, ...arrivals } = await arriving.stop();
        for (const [key, nano] of spent) expected.set(key, (expected.get(key) ?? 0n) + nano);
        return { ...measured, arrivals };
      };
      const mending = await measure(true);
      const comparing = await measure(false);
      if (comparing.differingBuckets + comparing.differingHours > 0) {
        throw new Error(`after the rebuild ${comparing.differingBuckets} buckets differ`);
      }
      await checkExactly(database.url, expected);
      return { events, mending, comparing, load: loadLine() };
    } finally {
      await controlPlane.process.stop();
    }
  } finally {
    await db.destroy();
    await database.drop();
  }
}

export function describeRebuild({ events, mending, comparing, load }: RebuildFigures): string {
  const tell = (name: string, run: RebuildRun) =>
    [
      `${name}: ${run.seconds.toFixed(1)} s, ${run.differingBuckets} buckets and ${run.differingHours} hours differed`,
      `  meanwhile ${run.arrivals.rate.toFixed(0)} events/s were recorded (${run.arrivals.events}), the slowest transaction ${run.arrivals.slowestMs.toFixed(0)} ms`,
      `  at most: control plane ${run.controlPlaneMiB.toFixed(0)} MiB, Postgres's backends ${run.postgresMiB.toFixed(0)} MiB of their own, ${run.temporaryMiB.toFixed(0)} MiB of temporary files`,
    ].join('\n');
  return [
    `rebuild of ${events} events; ${load}`,
    tell('all counters missing, mended', mending),
    tell('all well, compared', comparing),
    'afterwards every bucket was what its events cost, generated and recorded meanwhile, to the nano-USD',
  ].join('\n');
}

type Watched = Omit<RebuildRun, 'arrivals'>;

async function rebuildWatched(
  databaseUrl: string,
  controlPlane: ControlPlane,
  apply: boolean,
): Promise<Watched> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  let [controlPlaneMiB, postgresMiB] = [0, 0];
  const look = async () => {
    const { rows } = await client.query<{ pid: number }>(BACKENDS);
    const own = rows.reduce((sum, { pid }) => sum + (residentMiB(pid)?.own ?? 0), 0);
    postgresMiB = Math.max(postgresMiB, own);
    controlPlaneMiB = Math.max(controlPlaneMiB, residentMiB(controlPlane.process.pid)?.all ?? 0);
  };
  try {
    const temporaryBefore = await temporaryMiB(client);
    const start = performance.now();
    let looking = Promise.resolve();
    // Failing is told by the next query of the client.
    const timer = setInterval(() => {
      looking = looking.then(look).catch(() => {});
    }, SAMPLE_MS);
    const answer = await postRebuild(controlPlane, apply).finally(() => clearInterval(timer));
    const seconds = (performance.now() - start) / 1_000;
    await looking;
    return {
      seconds,
      differingBuckets: answer.differing_buckets,
      differingHours: answer.differing_hours,
      controlPlaneMiB,
      postgresMiB,
      temporaryMiB: (await temporaryMiB(client)) - temporaryBefore,
    };
  } finally {
    await client.end();
  }
}

const BACKENDS = `
  SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (query LIKE '%bucket\\_differences%' OR query LIKE '%hour\\_differences%')`;

async function temporaryMiB(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ mib: number }>(
    'SELECT temp_bytes / 1048576.0::float8 AS mib FROM pg_stat_database WHERE datname = current_database()',
  );
  return rows[0]?.mib ?? 0;
}

interface RebuildAnswer {
  readonly differing_buckets: number;
  readonly differing_hours: number;
}

/** Not by `fetch`, which gives up after five minutes. */
function postRebuild({ url, operatorKey }: ControlPlane, apply: boolean): Promise<RebuildAnswer> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${operatorKey}`, 'content-type': 'application/json' };
    const sent = request(`${url}/api/v1/ledger/rebuild`, { method: 'POST', headers }, async (response) => {
      try {
        const text = (await response.setEncoding('utf8').toArray()).join('');
        if (response.statusCode === 200) resolve(JSON.parse(text) as RebuildAnswer);
        else reject(new Error(`rebuild answers ${response.statusCode}: ${text}`));
      } catch (error) {
        reject(error);
      }
    });
    sent.on('error', reject);
    sent.end(JSON.stringify({ apply }));
  });
}

async function checkExactly(databaseUrl: string, expected: ReadonlyMap<string, bigint>): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await checkBuckets(client, expected);
  } finally {
    await client.end();
  }
}
