import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openArchive } from '@weighbridge/archive';
import { newUuid } from '@weighbridge/domain';
import { archiveNextDay, recordArchiverRun } from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';

const DAY_MS = 86_400_000;
const HOT_DAYS = 3;
/** At noon (UTC). */
const daysAgo = (days: number) => new Date((Math.floor(Date.now() / DAY_MS) - days + 0.5) * DAY_MS);
const OLD = daysAgo(6);
/** What only the attempts themselves have, no sum by hour or day. */
const BY_CONNECTOR = `/spend?${new URLSearchParams({ group_by: 'connector', from: daysAgo(7).toISOString(), to: daysAgo(-1).toISOString() })}`;

let root: string;
let api: TestApi;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'weighbridge-archive-'));
  api = await startTestApi({
    LEDGER_ARCHIVE_URL: pathToFileURL(join(root, 'archive')).href,
    LEDGER_ARCHIVE_WORK_DIR: join(root, 'work'),
  });
  api.now = daysAgo(8);
  await sql`
    SELECT create_usage_partition(month AT TIME ZONE 'UTC')
    FROM generate_series(date_trunc('month', ${OLD}::timestamptz AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', '1 month') AS month`.execute(
    api.db,
  );
});
afterAll(async () => {
  await api.close();
  await rm(root, { recursive: true, force: true });
});

function uuidAt(at: Date): string {
  const ms = at.getTime().toString(16).padStart(12, '0');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${newUuid().slice(15)}`;
}

function requestAt(at: Date): string {
  let bits = BigInt(`0x${uuidAt(at).replaceAll('-', '')}`);
  let text = '';
  for (let digits = 0; digits < 26; digits++, bits >>= 5n) {
    text = ('0123456789abcdefghjkmnpqrstvwxyz'[Number(bits & 31n)] ?? '') + text;
  }
  return `req_${text}`;
}

/** As metering does. */
async function archiveDays(): Promise<void> {
  const archive = await openArchive({
    url: pathToFileURL(join(root, 'archive')).href,
    workDir: join(root, 'work'),
    memoryBytes: 128 * 1024 * 1024,
    bucket: { region: '', endpoint: undefined, cacheBytes: 0 },
    threads: 1,
    timeoutMs: 120_000,
    maxReadBytes: 2 ** 30,
    retryAfterMs: [],
  });
  while (await archiveNextDay(api.db, archive, { now: new Date(), hotDays: HOT_DAYS }));
  await archive.close();
}

const archiveState = async () =>
  (await api.call('GET', '/ledger')).body.archive as { problems: string[] } & Json;
const ready = async () => JSON.parse((await api.get('/readyz')).text);

it('reports archived days as before, and says which file is damaged or that the archive is out of reach', async () => {
  const { body: policy } = await api.call('POST', '/policies', {
    body: { name: 'p', limit_micro_usd: 1_000, window: 'month' },
  });
  const request = requestAt(OLD);
  await recordAttempts(
    api.db,
    [OLD, daysAgo(5), daysAgo(1)].map((admittedAt, n) => ({
      event: uuidAt(admittedAt),
      request: n === 0 ? request : requestAt(admittedAt),
      policies: [String(policy.id)],
      admittedAt,
      costNano: 1_500n,
    })),
  );
  api.now = new Date();
  const before = await api.call('GET', BY_CONNECTOR);
  expect(before.body).toMatchObject({ data: [{ cost_micro_usd: 5 }] });
  const requestBefore = await api.call('GET', `/requests/${request}`);
  expect(await archiveState()).toMatchObject({ archived_before: null, due_days: 0, problems: [] });

  await archiveDays();
  const read = async () => [
    await api.call('GET', BY_CONNECTOR),
    await api.call('GET', `/requests/${request}`),
  ];
  const bodies = (responses: readonly { body: Json }[]) => responses.map(({ body }) => body);
  const { bucket_as_of: _, ...report } = before.body;
  expect(bodies(await read())).toMatchObject([report, requestBefore.body]);
  expect(await archiveState()).toMatchObject({
    archived_before: daysAgo(HOT_DAYS + 1)
      .toISOString()
      .replace('T12', 'T00'),
    problems: [],
  });

  // A new counter adds up rows, and those that were archived are gone.
  const change = api.call('PATCH', `/policies/${policy.id}`, { body: { window: 'none' } });
  expect(await outcome(change)).toEqual([409, 'window_needs_archive']);

  const day = `day=${OLD.toISOString().slice(0, 10)}`;
  const folder = join(root, 'archive');
  const [name = ''] = (await readdir(join(folder, day))).filter((file) => file.endsWith('.parquet'));
  const file = join(folder, day, name);
  const whole = await readFile(file);
  const outcomes = async () =>
    (await read()).map(({ status, body }) => [status, (body.error as Json | undefined)?.code]);
  await writeFile(file, Buffer.concat([whole.subarray(0, -1), Buffer.from('x')]));
  expect(await outcomes()).toEqual([
    [503, 'ledger_archive_damaged'],
    [503, 'ledger_archive_damaged'],
  ]);
  const damaged = `${day}/${name} of the archive has another hash than its manifest says`;
  expect((await archiveState()).problems).toEqual([damaged]);
  await eventually(async () =>
    expect(await ready()).toEqual({ status: 'ready', degraded: `archive of the ledger: ${damaged}` }),
  );
  expect(await api.metrics.text()).toMatch(/^weighbridge_archive_unreadable_files 1$/m);

  await rename(folder, `${folder}-elsewhere`);
  expect(await outcomes()).toEqual([
    [503, 'ledger_archive_unavailable'],
    [503, 'ledger_archive_unavailable'],
  ]);
  expect((await archiveState()).problems).toEqual(['the folder of the archive does not exist']);
  // What is in Postgres, and sums by day, need no archive.
  expect((await api.call('GET', BY_CONNECTOR.replace('connector', 'model'))).status).toBe(200);

  await rename(`${folder}-elsewhere`, folder);
  await writeFile(file, whole);
  // Without a report that reads it.
  await eventually(async () => expect(await ready()).toEqual({ status: 'ready' }));
  expect((await archiveState()).problems).toEqual([]);
  expect(bodies(await read())).toMatchObject([report, requestBefore.body]);
});

it('says how far archiving is behind, and since when it fails', async () => {
  const at = new Date();
  const { db } = api;
  await recordArchiverRun(db, { at: daysAgo(1), dueDays: 4, problem: 'the bucket answers 503' });
  await recordArchiverRun(db, { at, dueDays: 5, problem: 'the bucket answers 503' });
  const failing = `archiving fails since ${daysAgo(1).toISOString()}: the bucket answers 503; rows stay in Postgres`;
  expect(await archiveState()).toMatchObject({
    due_days: 5,
    ran_at: at.toISOString(),
    problems: [failing, '5 days of the ledger wait to be archived'],
  });
  await eventually(async () => expect(String((await ready()).degraded)).toContain(failing));
  await recordArchiverRun(db, { at, dueDays: 1, problem: undefined });
  expect((await archiveState()).problems).toEqual([]);
  api.now = new Date(at.getTime() + DAY_MS);
  expect((await archiveState()).problems).toEqual([
    `no metering worker has archived since ${at.toISOString()}`,
  ]);
});

it('warns that a control plane without the setting leaves out archived days', async () => {
  const without = await startTestApi();
  try {
    expect((await without.call('GET', '/ledger')).body.archive).toBeNull();
    await sql`UPDATE ledger_floor SET archive_from = ${daysAgo(9)}, dropped_before = ${daysAgo(3)}`.execute(
      without.db,
    );
    expect((await without.call('GET', '/ledger')).body.archive).toMatchObject({
      problems: ['LEDGER_ARCHIVE_URL is not set: reports lack archived days'],
    });
  } finally {
    await without.close();
  }
});
