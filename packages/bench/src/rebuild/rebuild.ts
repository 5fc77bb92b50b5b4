import { request } from 'node:http';
import { createDb } from '@weighbridge/database';
import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { checkBuckets } from '../shared/checkLedger.ts';
import { loadLine } from '../shared/machine.ts';
import { residentMiB } from '../shared/residentMemory.ts';
import { type ControlPlane, startControlPlane } from '../shared/service.ts';
import { type Arrivals, startArrivals } from './arrivals.ts';
import { generateLedger } from './generateLedger.ts';

const SAMPLE_MS = 200;

export interface RebuildOptions {
  readonly events: number;
  /** New events that are recorded per second meanwhile. */
  readonly rate: number;
  readonly onProgress: (text: string) => void;
}

export interface RebuildFigures {
  readonly events: number;
  /** On a ledger with events only: writes every counter and every hourly sum. */
  readonly mending: RebuildRun;
  /** On the repaired ledger: finds no difference. */
  readonly comparing: RebuildRun;
  readonly load: string;
}

interface RebuildRun {
  readonly seconds: number;
  readonly differingBuckets: number;
  readonly differingHours: number;
  readonly arrivals: Omit<Arrivals, 'spent'>;
  /** Peak MiB: resident memory of the control plane, and private memory of its Postgres backends. */
  readonly controlPlaneMiB: number;
  readonly postgresMiB: number;
  /** MiB that Postgres wrote to temporary files. */
  readonly temporaryMiB: number;
}

/**
 * Measures `POST /api/v1/ledger/rebuild` on a ledger whose counters are all missing, while new events are recorded; and
 * again when nothing differs. Afterwards every counter must have the sum that was computed outside of the database.
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
        const measured = await rebuildAndSample(database.url, controlPlane, apply).catch(async (error) => {
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
  const lines = (name: string, run: RebuildRun) =>
    [
      `${name}: ${run.seconds.toFixed(1)} s, ${run.differingBuckets} buckets and ${run.differingHours} hours differed`,
      `  meanwhile ${run.arrivals.rate.toFixed(0)} events/s were recorded (${run.arrivals.events}), the slowest transaction ${run.arrivals.slowestMs.toFixed(0)} ms`,
      `  at most: control plane ${run.controlPlaneMiB.toFixed(0)} MiB, Postgres's backends ${run.postgresMiB.toFixed(0)} MiB, ${run.temporaryMiB.toFixed(0)} MiB of temporary files`,
    ].join('\n');
  return [
    `rebuild of ${events} events; ${load}`,
    lines('all counters missing, repaired', mending),
    lines('no counter missing, compared', comparing),
    'afterwards every bucket was the sum of its events, generated or recorded meanwhile, to the nano-USD',
  ].join('\n');
}

type SampledRun = Omit<RebuildRun, 'arrivals'>;

async function rebuildAndSample(
  databaseUrl: string,
  controlPlane: ControlPlane,
  apply: boolean,
): Promise<SampledRun> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  let [controlPlaneMiB, postgresMiB] = [0, 0];
  const sample = async () => {
    const { rows } = await client.query<{ pid: number }>(BACKENDS);
    const own = rows.reduce((sum, { pid }) => sum + (residentMiB(pid)?.own ?? 0), 0);
    postgresMiB = Math.max(postgresMiB, own);
    controlPlaneMiB = Math.max(controlPlaneMiB, residentMiB(controlPlane.process.pid)?.all ?? 0);
  };
  try {
    const temporaryBefore = await temporaryMiB(client);
    const start = performance.now();
    let sampling = Promise.resolve();
    // If a sample fails, so does the client's next query, which reports it.
    const timer = setInterval(() => {
      sampling = sampling.then(sample).catch(() => {});
    }, SAMPLE_MS);
    const response = await postRebuild(controlPlane, apply).finally(() => clearInterval(timer));
    const seconds = (performance.now() - start) / 1_000;
    await sampling;
    return {
      seconds,
      differingBuckets: response.differing_buckets,
      differingHours: response.differing_hours,
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

interface RebuildResponse {
  readonly differing_buckets: number;
  readonly differing_hours: number;
}

/** Without `fetch`, which times out after five minutes. */
function postRebuild({ url, operatorKey }: ControlPlane, apply: boolean): Promise<RebuildResponse> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${operatorKey}`, 'content-type': 'application/json' };
    const sent = request(`${url}/api/v1/ledger/rebuild`, { method: 'POST', headers }, async (response) => {
      try {
        const text = (await response.setEncoding('utf8').toArray()).join('');
        if (response.statusCode === 200) resolve(JSON.parse(text) as RebuildResponse);
        else reject(new Error(`rebuild answered ${response.statusCode}: ${text}`));
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
