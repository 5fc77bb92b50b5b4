import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import {
  DAY_MS,
  FIRST_DAY,
  HOT_DAYS,
  LABELS,
  recordGenerated,
  useArchive,
} from '../../test/archivedLedger.ts';
import { openMonth, useLedger } from '../../test/ledger.ts';
import type { RequestFilter, RequestPosition } from '../requests/attemptsSql.ts';
import { findRequests, readRequests } from '../requests/requests.ts';
import { readPreviousSpend } from '../spend/previousSpend.ts';
import { readSpendCompleteness } from '../spend/readSpendCompleteness.ts';
import { readSpendRows, streamSpendRows } from '../spend/spendBreakdown.ts';
import { SPEND_DIMENSIONS, type SpendDimension, type SpendQuery } from '../spend/spendQuery.ts';
import { archiveNextDay } from './archiveDay.ts';
import { compareNewDays } from './compareNewDays.ts';
import { rebuildBuckets } from './rebuild.ts';

const ledger = useLedger();
const opened = useArchive();

const at = (days: number) => new Date(FIRST_DAY.getTime() + days * DAY_MS);
const WHOLE = { from: at(-1), to: at(30) };
/** Begins and ends within an hour, on days that are archived and on days that are not. */
const ODD = { from: new Date(Number(at(1)) + 4_567_891), to: new Date(Number(at(6)) + 1_234_567) };

const FILTERS: readonly Partial<RequestFilter>[] = [
  {},
  { principalId: 'ada' },
  { principalId: 'ünï "quoted"\\' },
  { within: { principalId: 'bob', teamIds: [] } },
  { within: { principalId: 'bob', teamIds: ['team_1', 'team_2'] } },
  { teamId: 'team_1' },
  { keyId: 'key_2' },
  { policyId: 'pol_a' },
  { model: 'mock/b' },
  { provider: 'other' },
  { user: 'u1', env: 'prod' },
  { user: '' },
  { team: 'red' },
  { project: 'none such' },
  { labels: [['plain', 'v']] },
  ...LABELS.map((label) => ({ labels: [[label, 'w']] as const })),
  { labels: [['a.b', '']] },
];

const LISTED: readonly Partial<RequestFilter>[] = [
  ...FILTERS,
  { sessionSha256: 'aa' },
  { outcome: 'success' },
  { outcome: 'upstream_error', estimated: true },
  { minCost: 10n ** 14n },
  { minCost: 3n, keyId: 'key_1' },
  { estimated: false },
  { priceIncomplete: true },
  { priceIncomplete: false, model: 'mock/a' },
];

const DIMENSIONS: readonly SpendDimension[] = [
  ...SPEND_DIMENSIONS,
  ...LABELS.map((label): SpendDimension => `label:${label}`),
];
const halfHours = (from: Date, count: number) =>
  Array.from({ length: count }, (_, n) => new Date(Number(from) + n * 7 * 1_800_000));

function spendQueries(): SpendQuery[] {
  const query = (part: Partial<SpendQuery>): SpendQuery => ({
    filter: ODD,
    groupBy: [],
    bucketEdges: [],
    ...part,
  });
  return [
    query({}),
    query({ filter: WHOLE }),
    ...DIMENSIONS.map((dimension) => query({ groupBy: [dimension] })),
    ...FILTERS.map((filter) => query({ filter: { ...ODD, ...filter }, groupBy: ['connector', 'model'] })),
    query({ groupBy: ['outcome', 'user'], bucketEdges: halfHours(ODD.from, 60) }),
    query({ groupBy: ['profile', 'service_tier'], sort: '-cost' }),
    query({ groupBy: ['session', 'key'], sort: 'errors', limit: 3, bucketEdges: halfHours(ODD.from, 40) }),
    query({ groupBy: ['connector', 'label:plain'], sort: '-output_tokens', limit: 2 }),
  ];
}

type Archive = (typeof opened)['archive'] | undefined;

/** Everything that is read of the ledger's rows, by what was asked. */
async function readAll(archive: Archive, requestIds: readonly string[]): Promise<Map<string, unknown>> {
  const { db } = ledger;
  const all = new Map<string, unknown>();
  const name = (...parts: unknown[]) =>
    JSON.stringify(parts, (_, value) => (typeof value === 'bigint' ? String(value) : value));
  for (const query of spendQueries()) {
    const rows: unknown[] = [];
    for (let after: readonly string[] | undefined; ; ) {
      const page = await readSpendRows(db, query, { after, limit: 40 }, archive);
      rows.push(...page);
      after = page.at(-1)?.position;
      if (page.length < 40 || query.groupBy.length === 0) break;
    }
    all.set(name('spend', query), rows);
    const { isComplete } = await readSpendCompleteness(db, query, archive);
    all.set(name('complete', query), isComplete);
  }
  const exported: SpendQuery = {
    filter: ODD,
    groupBy: ['connector', 'service_tier', 'user', 'key'],
    bucketEdges: [],
  };
  for await (const rows of streamSpendRows(db, exported, archive)) all.set(name('export'), rows);
  const later: SpendQuery = { filter: { from: at(4), to: at(8) }, groupBy: ['connector'], bucketEdges: [] };
  all.set(name('previous'), await readPreviousSpend(db, later, [['con_1'], ['con_2']], archive));
  for (const range of [WHOLE, ODD]) {
    for (const filter of LISTED) {
      all.set(name('list', range, filter), await list({ ...range, ...filter }, archive));
    }
  }
  for (const requestId of requestIds.slice(0, 20)) {
    all.set(name('one', requestId), await list({ ...WHOLE, requestId }, archive));
  }
  all.set(name('requests'), await readRequests(db, requestIds, archive));
  return all;
}

async function list(filter: RequestFilter, archive: Archive): Promise<unknown[]> {
  const listed: unknown[] = [];
  for (let after: RequestPosition | undefined; ; ) {
    const { requests, searchedTo } = await findRequests(ledger.db, filter, { after, limit: 17 }, archive);
    listed.push(...requests);
    after = requests.length < 17 ? searchedTo : requests.at(-1)?.position;
    if (!after) return listed;
  }
}

async function archiveAll(): Promise<number> {
  const run = { now: new Date(), hotDays: HOT_DAYS, bounds: { rows: 40, bytes: 1_000_000 } };
  let days = 0;
  while (await archiveNextDay(ledger.db, opened.archive, run)) days++;
  return days;
}

async function countRows(): Promise<{ rows: bigint; spent: string; opening: string }> {
  const { rows } = await sql<{ rows: bigint; spent: string; opening: string }>`
    SELECT (SELECT count(*) FROM usage_events) AS rows, sum(spent_nano_usd)::text AS spent,
      sum(opening_nano_usd)::text AS opening
    FROM spend_buckets`.execute(ledger.db);
  const [row] = rows;
  if (!row) throw new Error('an aggregate returned no row');
  return row;
}

describe('days that are archived', () => {
  it('answer every report and every list as before, to the nano-dollar, and change no counter', async () => {
    const { db } = ledger;
    await openMonth(db, at(-1));
    await sql`INSERT INTO aliases (id, name, target, policy_id, created_at, updated_at)
      VALUES ('als_1', 'mock/a', 'router/cheap', NULL, now(), now()), ('als_2', 'mock/b', 'router/fast', NULL, now(), now())
      ON CONFLICT DO NOTHING`.execute(db);
    const { seed, requestIds } = await recordGenerated(db, 300);
    const counted = await countRows();
    const before = await readAll(undefined, requestIds);
    expect(await readAll(opened.archive, requestIds), `seed ${seed}`).toEqual(before);

    expect(await archiveAll()).toBe(11 - HOT_DAYS);

    const after = await readAll(opened.archive, requestIds);
    for (const [asked, answer] of before) {
      expect(after.get(asked), `seed ${seed}: ${asked}`).toEqual(answer);
    }
    const left = await countRows();
    expect(left.rows).toBeLessThan((counted.rows * 3n) / 4n);
    expect(left.spent).toBe(counted.spent);
    expect(BigInt(left.opening)).toBeGreaterThan(0n);
    const { differingBuckets, differingHours } = await rebuildBuckets(db, { apply: false });
    expect({ differingBuckets, differingHours }).toEqual({ differingBuckets: 0, differingHours: 0 });
    const compared = await compareNewDays(db, { now: new Date(), recheckRuns: 30 });
    expect(compared).toMatchObject({ differingBuckets: 0, differingHours: 0 });
    // Without the archive, a report says that it lacks something.
    const query: SpendQuery = { filter: WHOLE, groupBy: ['connector'], bucketEdges: [] };
    expect((await readSpendCompleteness(db, query)).isComplete).toBe(false);
  });
});
