import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Archive, openArchive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { type S3, startS3 } from '@weighbridge/mock-vendor/clouds';
import fc from 'fast-check';
import { afterAll, beforeAll } from 'vitest';
import type { LedgerEvent } from '../src/events/usage.ts';
import { recordUsage } from '../src/recording/recordUsage.ts';
import { recordCorrection } from '../src/requests/corrections.ts';
import { type EventFields, ledgerEvent } from './events.ts';
import { eventsOnly, uuidAt } from './ledger.ts';

export const DAY_MS = 86_400_000;
/** Eleven days ago: whatever the date is, those days are over. */
export const FIRST_DAY = new Date(Math.floor(Date.now() / DAY_MS - 11) * DAY_MS);
/** Rows of the last days stay in Postgres. */
export const HOT_DAYS = 7;

export interface TestArchive {
  archive: Archive;
  folder: string;
}

/** An archive in a temporary folder of this test file. */
export function useArchive(): TestArchive {
  const opened = {} as TestArchive;
  let root = '';
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'weighbridge-archive-'));
    opened.folder = join(root, 'archive');
    opened.archive = await openTestArchive({
      url: pathToFileURL(opened.folder).href,
      workDir: join(root, 'work'),
    });
  });
  afterAll(async () => {
    await opened.archive.close();
    await rm(root, { recursive: true, force: true });
  });
  return opened;
}

const ACCOUNT = { accessKeyId: 'AKIATEST', secretAccessKey: 'secret' };

export interface TestBucket {
  s3: S3;
  /** Of a process with an empty cache. */
  open(): Promise<Archive>;
}

/** An archive in a bucket of this test file. */
export function useBucket(): TestBucket {
  const opened: Archive[] = [];
  let root = '';
  const bucket = {
    async open() {
      const options = { url: 's3://ledger/archive', workDir: root, endpoint: bucket.s3.url };
      const archive = await openTestArchive(options);
      opened.push(archive);
      return archive;
    },
  } as TestBucket;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'weighbridge-archive-'));
    bucket.s3 = await startS3({ bucket: 'ledger', region: 'us-east-1', accounts: [ACCOUNT] });
  });
  afterAll(async () => {
    for (const archive of opened) await archive.close();
    await bucket.s3.close();
    await rm(root, { recursive: true, force: true });
  });
  return bucket;
}

async function openTestArchive({
  url,
  workDir,
  endpoint,
}: {
  readonly url: string;
  readonly workDir: string;
  readonly endpoint?: string;
}): Promise<Archive> {
  return await openArchive({
    url,
    workDir,
    memoryBytes: 256 * 1024 * 1024,
    bucket: { region: 'us-east-1', endpoint, cacheBytes: 2 ** 30, credentials: ACCOUNT },
    threads: 1,
    timeoutMs: 120_000,
    maxReadBytes: 2 ** 30,
    retryAfterMs: [],
  });
}

const BASE32 = '0123456789abcdefghjkmnpqrstvwxyz';

/** A request id with a given time. */
export function requestIdAt(at: Date): string {
  let bits = BigInt(`0x${uuidAt(at).replaceAll('-', '')}`);
  let text = '';
  for (let digits = 0; digits < 26; digits++, bits >>= 5n) text = (BASE32[Number(bits & 31n)] ?? '') + text;
  return `req_${text}`;
}

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
/** Keys that a JSON path would read as more than a name. */
export const LABELS = ['cost/center', 'a.b', 'x~1"', '$', '*', 'plain'];

interface GeneratedRequest {
  /** Since the first day; some are just before midnight. */
  readonly atMs: number;
  readonly attempts: readonly (EventFields & { readonly afterMs: number; readonly connector: string })[];
  readonly correctedBy: bigint | undefined;
}

/** With the counters of a further limit of money, requests and tokens. */
const COUNTED = ['pol_a', 'pol_a.lim_1', 'pol_a.lim_1.requests', 'pol_a.lim_1.tokens'];

const attempt = fc.record({
  afterMs: fc.constantFrom(1, 2_000, 45_000),
  model: fc.constantFrom('mock/a', 'mock/b', 'other/c'),
  connector: fc.constantFrom('con_1', 'con_2', ''),
  cost: fc.oneof(fc.bigInt({ min: 0n, max: 5n }), fc.bigInt({ min: 0n, max: 10n ** 15n })),
  tokens: fc.nat({ max: 10_000 }),
  outcome: fc.constantFrom(
    'success',
    'success',
    'upstream_error',
    'upstream_unreachable',
    'interrupted',
    'rejected',
  ),
  estimated: fc.boolean(),
  cacheHit: fc.boolean(),
  firstByteUs: fc.option(fc.nat()),
  details: fc.record(
    { service_tier: fc.constantFrom('flex', 'priority'), unpriced: fc.constant(['x']) },
    { requiredKeys: [] },
  ),
});

const request: fc.Arbitrary<GeneratedRequest> = fc.record({
  atMs: fc.oneof(
    fc.integer({ min: 0, max: 9 * DAY_MS }),
    fc.integer({ min: 1, max: 9 }).map((day) => day * DAY_MS - 1_000),
    fc.integer({ min: 0, max: 9 * 24 }).map((hour) => hour * 3_600_000),
  ),
  attempts: fc
    .tuple(
      fc.record({
        key: fc.constantFrom('key_1', 'key_2', 'key_3'),
        principal: fc.constantFrom('ada', 'bob', 'ünï "quoted"\\'),
        team: fc.option(fc.constantFrom('team_1', 'team_2')),
        policies: fc.constantFrom(['pol_a'], ['pol_b', 'pol_a'], ['pol_c'], COUNTED),
        attribution: fc.record(
          {
            user: fc.constantFrom('u1', 'u2', '(other)', ''),
            team: fc.constantFrom('red', 'blue'),
            project: fc.string({ unit: 'grapheme', maxLength: 5 }).filter((text) => !text.includes('\0')),
            env: fc.constantFrom('prod', 'dev'),
            workload_type: fc.constantFrom('chat', 'batch'),
            session_id: fc.constantFrom('s1', 's2'),
            session_sha256: fc.constantFrom('aa', 'bb'),
            labels: fc.dictionary(fc.constantFrom(...LABELS), fc.constantFrom('v', 'w', '')),
          },
          { requiredKeys: [] },
        ),
      }),
      fc.array(attempt, { minLength: 1, maxLength: 3 }),
    )
    .map(([shared, attempts]) =>
      attempts.map((one) => {
        const counts = shared.policies === COUNTED ? { counts: { requests: 1, tokens: one.tokens } } : {};
        return { ...shared, ...one, ...counts } as EventFields & typeof one;
      }),
    ),
  correctedBy: maybe(fc.bigInt({ min: 1n, max: 10n ** 12n })),
});

/**
 * Records requests of nine days, with attempts that follow each other over midnight, and corrections of them: some at once, some of
 * today. Returns the seed, and the ids of the requests.
 */
export async function recordGenerated(
  db: Database,
  count: number,
  seed = randomInt(2 ** 31),
): Promise<{ readonly seed: number; readonly requestIds: readonly string[] }> {
  const requests = fc.sample(request, { numRuns: count, seed });
  const requestIds: string[] = [];
  const events: LedgerEvent[] = [];
  const corrections: { requestId: string; amount: bigint; at: Date }[] = [];
  let n = 0;
  for (const { atMs, attempts, correctedBy } of requests) {
    const admittedAt = new Date(FIRST_DAY.getTime() + atMs);
    const requestId = requestIdAt(admittedAt);
    requestIds.push(requestId);
    let startedAt = admittedAt.getTime();
    const ofModel = new Map<string, number>();
    for (const [index, { afterMs, connector, ...fields }] of attempts.entries()) {
      startedAt += afterMs;
      const { row, ...event } = ledgerEvent(++n, {
        ...fields,
        request: requestId,
        admittedAt,
        attempt: index + 1,
      });
      const model_attempt = (ofModel.get(row.model) ?? 0) + 1;
      ofModel.set(row.model, model_attempt);
      const event_id = uuidAt(new Date(startedAt));
      events.push({ ...event, row: { ...row, event_id, model_attempt, connector_id: connector } });
    }
    if (correctedBy !== undefined) {
      const at = correctedBy % 2n === 0n ? new Date(admittedAt.getTime() + DAY_MS) : new Date();
      corrections.push({ requestId, amount: correctedBy, at });
    }
  }
  for (let at = 0; at < events.length; at += 500)
    await recordUsage(db, eventsOnly(events.slice(at, at + 500)));
  for (const { requestId, amount, at } of corrections) {
    await db.transaction().execute((tx) =>
      recordCorrection(tx, {
        correctionId: uuidAt(at),
        requestId,
        amountNanoUsd: amount,
        reason: 'a test',
        now: at,
      }),
    );
  }
  return { seed, requestIds };
}
