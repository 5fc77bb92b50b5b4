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
  /** Empties the caches once, not before each request: a small ledger is in them at once. */
  readonly isQuick?: boolean;
  readonly onProgress: (text: string) => void;
}

export interface AskedRequest {
  readonly page: string;
  readonly who: Visitor['who'];
  readonly path: string;
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
  { repeats, isQuick = false, onProgress }: ConsoleOptions,
): Promise<Pick<ConsoleFigures, 'asked' | 'isDiskCold'>> {
  const asked: AskedRequest[] = [];
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  let isDiskCold = true;
  try {
    await client.query('VACUUM ANALYZE');
    for (const { page, who, path } of pageRequests(now)) {
      const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
        encodeURIComponent(seeded.ids[name] ?? ''),
      );
      for (const visitor of seeded.visitors.filter((one) => who.includes(one.who))) {
        onProgress(`${page}: ${visitor.who} ${filled}`);
        if (!isQuick || asked.length === 0) isDiskCold = (await chill(client)) && isDiskCold;
        const coldMs = await ask(url, visitor, filled);
        const warm: number[] = [];
        for (let n = 0; n < repeats; n++) warm.push(await ask(url, visitor, filled));
        asked.push({ page, who: visitor.who, path, coldMs, warmMs: quantiles(warm) });
      }
    }
  } finally {
    await client.end();
  }
  return { asked, isDiskCold };
}

async function ask(url: string, { key }: Visitor, path: string): Promise<number> {
  const start = performance.now();
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  const text = await response.text();
  const ms = performance.now() - start;
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${text}`);
  return ms;
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

/** Those that took longest, and how many kept the bar. */
export function describeConsole({ events, hours, asked, isDiskCold, load }: ConsoleFigures): string {
  const slow = slowerThan(asked, MAX_MS);
  const rows = asked
    .toSorted((one, other) => other.warmMs.max - one.warmMs.max)
    .map(({ page, who, path, coldMs, warmMs }) => [
      page,
      who,
      path.replace('/api/v1', ''),
      coldMs.toFixed(0),
      warmMs.p50.toFixed(0),
      warmMs.max.toFixed(0),
    ]);
  return [
    `${events} events in ${hours} rows of hours, ${asked.length} requests; ${load}`,
    `cold: out of Postgres's memory${isDiskCold ? " and the system's" : ''}`,
    `answered within ${MAX_MS} ms, also cold: ${asked.length - slow.length} of ${asked.length}`,
    formatTable([['page', 'who', 'request', 'cold ms', 'p50 ms', 'max ms'], ...rows]),
  ].join('\n');
}

/** What missed the bar, cold or warm. */
export function slowerThan(asked: readonly AskedRequest[], ms: number): AskedRequest[] {
  return asked.filter(({ coldMs, warmMs }) => Math.max(coldMs, warmMs.max) >= ms);
}
