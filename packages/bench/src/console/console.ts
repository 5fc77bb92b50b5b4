import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createDb } from '@weighbridge/database';
import { rebuildBuckets } from '@weighbridge/ledger';
import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { generateLedger } from '../rebuild/generateLedger.ts';
import { formatTable } from '../shared/figures.ts';
import { loadLine } from '../shared/machine.ts';
import { type Quantiles, quantiles } from '../shared/quantiles.ts';
import { pageRequests } from './pageRequests.ts';
import { addRareEvents, type Seeded, startSeeded, type Visitor } from './seedAccounts.ts';

const MAX_MS = 300;

export interface ConsoleOptions {
  readonly events: number;
  /** How often each request is asked with a warm cache. */
  readonly repeats: number;
  /** Asks these pages alone: starts of their names. */
  readonly pages?: readonly string[] | undefined;
  /** Empties the caches once, not before each request: a small ledger is in them at once. */
  readonly isQuick?: boolean;
  readonly onProgress: (text: string) => void;
}

export interface AskedRequest {
  readonly page: string;
  readonly who: Visitor['who'];
  readonly path: string;
  /** The statuses that its answers had. */
  readonly statuses: readonly number[];
  /** The first time, with the ledger in neither Postgres's memory nor, where its files can be reached, the system's. */
  readonly coldMs: number;
  readonly warmMs: Quantiles;
}

export interface ConsoleFigures {
  readonly events: number;
  readonly hours: number;
  readonly asked: readonly AskedRequest[];
  /** Whether the system forgot the files too. */
  readonly isDiskCold: boolean;
  readonly load: string;
}

/** Asks a control plane with a large ledger everything that the pages of the console ask, one request at a time. */
export async function measureConsole(run: TestRun, options: ConsoleOptions): Promise<ConsoleFigures> {
  const { events, onProgress } = options;
  const now = new Date();
  const database = await createTestDatabase(run);
  try {
    await generateLedger(database.url, events, now, onProgress);
    await addRareEvents(database.url, events);
    onProgress('counters and hours');
    const hours = await addUp(database.url);
    const { controlPlane, seeded } = await startSeeded(run, database.url, now);
    try {
      return {
        events,
        hours,
        ...(await askAll(controlPlane.url, database.url, seeded, now, options)),
        load: loadLine(),
      };
    } finally {
      await controlPlane.process.stop();
    }
  } finally {
    await database.drop();
  }
}

/** Derives what metering would have kept, and returns the rows of hours. */
async function addUp(databaseUrl: string): Promise<number> {
  const db = createDb(databaseUrl, { applicationName: 'bench console', onIdleError: () => {} });
  try {
    return (await rebuildBuckets(db, { apply: true })).differingHours;
  } finally {
    await db.destroy();
  }
}

async function askAll(
  url: string,
  databaseUrl: string,
  seeded: Seeded,
  now: Date,
  { pages = [''], repeats, isQuick = false, onProgress }: ConsoleOptions,
): Promise<Pick<ConsoleFigures, 'asked' | 'isDiskCold'>> {
  const asked: AskedRequest[] = [];
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  let isDiskCold = true;
  try {
    await client.query('VACUUM ANALYZE');
    const wanted = pageRequests(now).filter(({ page }) =>
      pages.some((start) => page.toLowerCase().startsWith(start.toLowerCase())),
    );
    for (const { page, who, path } of wanted) {
      const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
        encodeURIComponent(seeded.ids[name] ?? ''),
      );
      for (const visitor of seeded.visitors.filter((one) => who.includes(one.who))) {
        onProgress(`${page}: ${visitor.who} ${filled}`);
        if (!isQuick || asked.length === 0) isDiskCold = (await chill(client)) && isDiskCold;
        const cold = await ask(url, visitor, filled);
        const warm: Answer[] = [];
        for (let n = 0; n < repeats; n++) warm.push(await ask(url, visitor, filled));
        const statuses = [...new Set([cold, ...warm].map(({ status }) => status))];
        const warmMs = quantiles(warm.map(({ ms }) => ms));
        asked.push({ page, who: visitor.who, path, statuses, coldMs: cold.ms, warmMs });
      }
    }
  } finally {
    await client.end();
  }
  return { asked, isDiskCold };
}

interface Answer {
  readonly status: number;
  readonly ms: number;
}

async function ask(url: string, { key }: Visitor, path: string): Promise<Answer> {
  const start = performance.now();
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return { status: response.status, ms: performance.now() - start };
}

/** Pushes the ledger out of Postgres's memory, and its files out of the system's; false if these can't be reached. */
async function chill(client: pg.Client): Promise<boolean> {
  await client.query('CHECKPOINT');
  // A scan of an index takes the buffers of all else; that of a table would leave them.
  await client.query('BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off');
  await client.query("SELECT count(*) FROM usage_events WHERE request_id > ''");
  await client.query('COMMIT');
  const { rows } = await client.query<{ folder: string; oid: number }>(
    "SELECT current_setting('data_directory') AS folder, oid FROM pg_database WHERE datname = current_database()",
  );
  const [{ folder, oid } = { folder: '', oid: 0 }] = rows;
  const forget = 'for file in "$0"/*; do dd if="$file" iflag=nocache count=0 status=none || exit 1; done';
  return await promisify(execFile)('sh', ['-c', forget, join(folder, 'base', String(oid))]).then(
    () => true,
    () => false,
  );
}

/** By page, and then each request, those that took longest first. */
export function describeConsole({ events, hours, asked, isDiskCold, load }: ConsoleFigures): string {
  const missed = missing(asked, MAX_MS);
  const rows = asked
    .toSorted((one, other) => other.warmMs.max - one.warmMs.max)
    .map(({ page, who, path, statuses, coldMs, warmMs }) => [
      page,
      who,
      path.replace('/api/v1', ''),
      statuses.join(' '),
      coldMs.toFixed(0),
      warmMs.p50.toFixed(0),
      warmMs.max.toFixed(0),
    ]);
  return [
    `${events} events in ${hours} rows of hours, ${asked.length} requests; ${load}`,
    `cold: out of Postgres's memory${isDiskCold ? " and the system's" : ''}`,
    `answered with 200 within ${MAX_MS} ms, also cold: ${asked.length - missed.length} of ${asked.length}`,
    formatTable([
      ['page', 'who', 'requests', 'missed', 'p50 ms', 'max ms', 'cold p50 ms', 'cold max ms'],
      ...pageRows(asked),
    ]),
    formatTable([['page', 'who', 'request', 'status', 'cold ms', 'p50 ms', 'max ms'], ...rows]),
  ].join('\n');
}

function pageRows(asked: readonly AskedRequest[]): string[][] {
  const visits = new Map(asked.map(({ page, who }) => [`${page} ${who}`, { page, who }]));
  return [...visits.values()].map(({ page, who }) => {
    const ofPage = asked.filter((one) => one.page === page && one.who === who);
    const cold = quantiles(ofPage.map(({ coldMs }) => coldMs));
    const figures = [
      ofPage.length,
      missing(ofPage, MAX_MS).length,
      quantiles(ofPage.map(({ warmMs }) => warmMs.p50)).p50,
      Math.max(...ofPage.map(({ warmMs }) => warmMs.max)),
      cold.p50,
      cold.max,
    ];
    return [page, who, ...figures.map((figure) => figure.toFixed(0))];
  });
}

/** What missed the bar, cold or warm, or was refused. */
export function missing(asked: readonly AskedRequest[], ms: number): AskedRequest[] {
  return asked.filter(
    ({ statuses, coldMs, warmMs }) =>
      statuses.some((status) => status !== 200) || Math.max(coldMs, warmMs.max) >= ms,
  );
}
