import { createDb, type Database } from '@weighbridge/database';
import { CALENDAR_UNITS, calendarEdges } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EventFields, ledgerEvent } from '../../test/events.ts';
import { openMonth } from '../../test/ledger.ts';
import { addToSums } from './addToSums.ts';
import type { LedgerFilter } from './ledgerFilter.ts';
import { readSpendRows, type SpendRow, streamSpendRows } from './spendBreakdown.ts';
import { SPEND_DIMENSIONS, type SpendDimension, type SpendQuery, type SpendSort } from './spendQuery.ts';

const HOSTILE_KEYS = [
  'cost center',
  "o'brien",
  '"',
  '__proto__',
  'a,b',
  "'); DROP TABLE usage_events; --",
  '$1',
  '\\',
];
const VALUES = ['', 'x', 'X', 'ä', '=1+1', 'a,b', 'line\nbreak', '"', '\u{1f4b8}', '{}', 'null'];
const FIRST = Date.parse('2026-03-25T00:00:00Z');
const LAST = Date.parse('2026-11-05T00:00:00Z');
// Hours around the daylight saving changes in Berlin and Havana, and the year between.
const SPOTS = [
  '2026-03-29T00:30:00Z',
  '2026-03-29T01:00:00Z',
  '2026-10-24T22:00:00Z',
  '2026-10-25T00:59:59.999Z',
  '2026-10-25T01:00:00Z',
  '2026-11-01T04:30:00Z',
  '2026-11-01T05:30:00Z',
].map((text) => Date.parse(text));

const HOUR_MS = 3_600_000;
const value = fc.constantFrom(...VALUES);
interface Fields extends EventFields {
  readonly attempt: number;
  readonly modelAttempt: number;
  readonly shard: number | null;
}
const attempt: fc.Arbitrary<Fields> = fc.record({
  request: fc.integer({ min: 0, max: 150 }).map((n) => `req_${n}`),
  key: fc.constantFrom('key_1', 'key_2'),
  principal: fc.constantFrom('ada', 'bob'),
  policies: fc.constantFrom(['pol_a'], ['pol_a', 'pol_b'], ['pol_b']),
  model: fc.constantFrom('mock/echo', 'mock/other', 'together/meta/llama', 'Mock/echo'),
  // Their sum exceeds a bigint column.
  cost: fc.oneof(fc.bigInt({ min: 0n, max: 10n ** 17n }), fc.constantFrom(0n, 499n, 500n)),
  tokens: fc.integer({ min: 0, max: 400_000_000 }),
  estimated: fc.boolean(),
  cacheHit: fc.boolean(),
  outcome: fc.constantFrom('success', 'upstream_error', 'upstream_unreachable', 'interrupted', 'client_gone'),
  admittedAt: fc
    .oneof(fc.constantFrom(...SPOTS), fc.integer({ min: FIRST, max: LAST - 1 }))
    .map((ms) => new Date(ms)),
  attribution: fc.record(
    {
      user: value,
      team: value,
      project: value,
      env: value,
      workload_type: value,
      namespace: value,
      workload: value,
      labels: fc
        .array(fc.tuple(fc.constantFrom(...HOSTILE_KEYS), value), { maxLength: 4 })
        .map((pairs) => Object.fromEntries(pairs)),
    },
    { requiredKeys: [] },
  ),
  attempt: fc.integer({ min: 1, max: 3 }),
  modelAttempt: fc.integer({ min: 1, max: 2 }),
  shard: fc.constantFrom(null, 0, 3),
});
/** A correction adds to the cost only. */
const correction = fc.tuple(attempt, fc.bigInt({ min: -(10n ** 9n), max: 10n ** 9n })).map(([of, cost]) => ({
  ...of,
  ...{ cost, tokens: 0, attempt: 0, modelAttempt: 0, shard: null, estimated: false, outcome: 'correction' },
  cacheHit: false,
}));
const event = fc.oneof({ arbitrary: attempt, weight: 9 }, { arbitrary: correction, weight: 1 });
const dimension: fc.Arbitrary<SpendDimension> = fc.oneof(
  fc.constantFrom(...SPEND_DIMENSIONS),
  fc.constantFrom(...HOSTILE_KEYS).map((key) => `label:${key}` as const),
);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
let events: Fields[];
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', maxConnections: 3, onIdleError: () => {} });
  events = fc.sample(event, { numRuns: 800, seed: 20_261_120 });
  await openMonth(db, new Date(FIRST));
  await openMonth(db, new Date('2026-12-01T00:00:00Z'));
  // Only rows and hours: buckets would overflow, which is not tested here.
  const rows = events.map(rowOf);
  for (let n = 0; n < rows.length; n += 37) {
    const batch = rows.slice(n, n + 37);
    await db.transaction().execute(async (tx) => {
      await tx.insertInto('usage_events').values(batch).execute();
      await addToSums(
        tx,
        batch.map((row) => ({ row })),
      );
    });
  }
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

function rowOf(fields: Fields, n: number) {
  const { row } = ledgerEvent(n, fields);
  const { attempt, modelAttempt, shard } = fields;
  const isCorrection = fields.outcome === 'correction';
  return {
    ...row,
    ...{ attempt, model_attempt: modelAttempt, shard },
    ...(isCorrection && { kind: 'correction', corrects: row.event_id, reason: 'a test' }),
    bucket_keys: ['pol/1/0/policy'],
    policy_id: fields.policies?.[0] ?? '',
  };
}

/** The value of an event in a dimension. */
function valueOfEvent(fields: EventFields, name: SpendDimension): string | null {
  const attribution = (fields.attribution ?? {}) as Record<string, unknown>;
  if (name.startsWith('label:')) {
    const labels = (attribution.labels ?? {}) as Record<string, string>;
    const key = name.slice('label:'.length);
    return Object.hasOwn(labels, key) ? (labels[key] ?? null) : null;
  }
  switch (name) {
    case 'principal':
      return fields.principal ?? null;
    case 'key':
      return fields.key ?? null;
    case 'policy':
      return fields.policies?.[0] ?? null;
    case 'model':
      return fields.model ?? null;
    case 'provider':
      return fields.model?.split('/')[0] ?? null;
    case 'connector':
      return 'con_1';
    case 'profile':
      return null;
    case 'outcome':
      return fields.outcome ?? null;
    case 'session':
      return (attribution.session_id as string | undefined) ?? null;
    default:
      return (attribution[name] as string | undefined) ?? null;
  }
}

type Expected = Omit<SpendRow, 'position'>;

function oracle(query: SpendQuery): Expected[] {
  const { filter } = query;
  const groups = new Map<string, { bucketStart: Date | null; group: (string | null)[]; of: Fields[] }>();
  for (const fields of events) {
    const at = fields.admittedAt ?? new Date(0);
    if (at < filter.from || at >= filter.to) continue;
    const wanted: [SpendDimension, string | undefined][] = [
      ['principal', filter.principalId],
      ['policy', filter.policyId],
      ['provider', filter.provider],
      ['team', filter.team],
      ...(filter.labels ?? []).map(([key, text]): [SpendDimension, string] => [`label:${key}`, text]),
    ];
    if (wanted.some(([name, text]) => text !== undefined && valueOfEvent(fields, name) !== text)) continue;
    const bucketStart = query.bucketEdges.findLast((edge) => edge <= at) ?? null;
    const group = query.groupBy.map((name) => valueOfEvent(fields, name));
    const id = JSON.stringify([bucketStart, group]);
    const found = groups.get(id) ?? { bucketStart, group, of: [] };
    found.of.push(fields);
    groups.set(id, found);
  }
  const sum = (of: Fields[], factor: number) =>
    of.reduce((total, fields) => total + (fields.tokens ?? 0) * factor, 0);
  const byModel =
    query.groupBy.some((name) => name === 'model' || name === 'provider') || filter.provider !== undefined;
  const isFirst = (fields: Fields) => (byModel ? fields.modelAttempt : fields.attempt) === 1;
  const failed = ['upstream_error', 'upstream_unreachable', 'interrupted'];
  return [...groups.values()].sort(byPosition).map(({ bucketStart, group, of }) => ({
    bucketStart,
    group,
    requests: of.filter(isFirst).length,
    attempts: of.filter(({ outcome, cacheHit }) => outcome !== 'correction' && !cacheHit).length,
    estimatedRequests: of.filter(({ estimated }) => estimated).length,
    errors: of.filter(({ outcome }) => failed.includes(outcome ?? '')).length,
    inputTokens: sum(of, 1),
    cacheReadTokens: sum(of, 2),
    cacheWriteTokens: sum(of, 3),
    cacheWrite1hTokens: sum(of, 4),
    outputTokens: sum(of, 5),
    cost: of.reduce((total, { cost }) => total + (cost ?? 0n), 0n),
    isOthers: false,
  }));
}

type Sorted = { readonly bucketStart: Date | null; readonly group: readonly (string | null)[] };

function byPosition(a: Sorted, b: Sorted): number {
  const time = Number(a.bucketStart) - Number(b.bucketStart);
  if (time !== 0) return time;
  for (const [index, mine] of a.group.entries()) {
    const other = b.group[index] ?? null;
    const order = Buffer.compare(Buffer.from(sortable(mine)), Buffer.from(sortable(other)));
    if (order !== 0) return order;
  }
  return 0;
}

const sortable = (text: string | null) => (text === null ? '' : `=${text}`);
const MEASURES = {
  cost: ({ cost }: Expected) => cost,
  requests: ({ requests }: Expected) => BigInt(requests),
  attempts: ({ attempts }: Expected) => BigInt(attempts),
  errors: ({ errors }: Expected) => BigInt(errors),
  input_tokens: ({ inputTokens }: Expected) => BigInt(inputTokens),
  output_tokens: ({ outputTokens }: Expected) => BigInt(outputTokens),
};
const ADDED = [
  'requests',
  'attempts',
  'estimatedRequests',
  'errors',
  'inputTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'cacheWrite1hTokens',
  'outputTokens',
] as const;

/** One row with the sums of several. */
function added(
  rows: readonly Expected[],
  as: Pick<Expected, 'bucketStart' | 'group' | 'isOthers'>,
): Expected {
  const sums = ADDED.map((name) => [name, rows.reduce((total, row) => total + row[name], 0)] as const);
  const cost = rows.reduce((total, row) => total + row.cost, 0n);
  return { ...as, ...(Object.fromEntries(sums) as Record<(typeof ADDED)[number], number>), cost };
}

function grouped<T>(rows: readonly T[], keyOf: (row: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const row of rows) groups.set(keyOf(row), [...(groups.get(keyOf(row)) ?? []), row]);
  return [...groups.values()];
}

/** The rows in the order that the query asks for, and those beyond its limit as one row of each time bucket. */
function sortedOracle(wanted: SpendQuery): Expected[] {
  const rows = oracle(wanted);
  const { sort, limit } = wanted;
  if (sort === undefined) return rows;
  const measure = MEASURES[sort.replace('-', '') as keyof typeof MEASURES];
  const bySort = (a: Expected, b: Expected) => {
    const difference = measure(a) - measure(b);
    return sort.startsWith('-') ? -Math.sign(Number(difference)) : Math.sign(Number(difference));
  };
  const overall = grouped(rows, ({ group }) => JSON.stringify(group))
    .map((of) => added(of, { bucketStart: null, group: of[0]?.group ?? [], isOthers: false }))
    .sort((a, b) => bySort(a, b) || byPosition(a, b));
  const first = new Set(overall.slice(0, limit).map(({ group }) => JSON.stringify(group)));
  const isShown = ({ group }: Expected) => first.has(JSON.stringify(group));
  const others = grouped(
    rows.filter((row) => !isShown(row)),
    ({ bucketStart }) => String(Number(bucketStart)),
  ).map((of) =>
    added(of, {
      bucketStart: of[0]?.bucketStart ?? null,
      group: wanted.groupBy.map(() => null),
      isOthers: true,
    }),
  );
  return [...rows.filter(isShown), ...others].sort(
    (a, b) =>
      Number(a.bucketStart) - Number(b.bucketStart) ||
      Number(a.isOthers) - Number(b.isOthers) ||
      bySort(a, b) ||
      byPosition(a, b),
  );
}

const withoutPosition = ({ position: _, ...row }: SpendRow): Expected => row;

async function pages(query: SpendQuery, size: number): Promise<Expected[]> {
  const all: SpendRow[] = [];
  for (let after: readonly string[] | undefined; ; ) {
    const rows = await readSpendRows(db, query, { after, limit: size });
    all.push(...rows);
    after = rows.at(-1)?.position;
    if (rows.length < size) return all.map(withoutPosition);
  }
}

const time = fc.integer({ min: FIRST, max: LAST });
const query: fc.Arbitrary<SpendQuery> = fc
  .record({
    ends: fc.tuple(time, time),
    groupBy: fc.uniqueArray(dimension, { maxLength: 3 }),
    unit: fc.constantFrom(undefined, ...CALENDAR_UNITS),
    zone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/Havana', 'Asia/Kathmandu', 'Pacific/Auckland'),
    filter: fc.record(
      {
        principalId: fc.constantFrom('ada', "x' OR true --"),
        policyId: fc.constantFrom('pol_a', 'pol_b'),
        provider: fc.constantFrom('mock', 'together'),
        team: value,
        labels: fc.array(fc.tuple(fc.constantFrom(...HOSTILE_KEYS), value), { maxLength: 1 }),
      },
      { requiredKeys: [] },
    ),
    narrow: fc.boolean(),
    // Range ends on whole hours, within an hour, or anywhere.
    shape: fc.constantFrom('hours', 'short', 'any'),
    sort: fc.constantFrom<(SpendSort | undefined)[]>(
      undefined,
      '-cost',
      'cost',
      '-requests',
      'errors',
      '-output_tokens',
    ),
    limit: fc.constantFrom(undefined, 1, 3, 20),
  })
  .map(({ ends, groupBy, unit, zone, filter, narrow, shape, sort, limit }) => {
    const grid = shape === 'hours' ? HOUR_MS : 1;
    const start = Math.min(...ends);
    const from = new Date(start - (start % grid));
    const to = new Date(
      shape === 'short' ? start + 5_400_000 : Math.max(...ends) - (Math.max(...ends) % grid) + grid,
    );
    const whole: LedgerFilter = { ...(narrow ? filter : {}), from, to };
    const bucketEdges = unit ? calendarEdges(unit, zone, from, to) : [];
    const isLimited = sort !== undefined && groupBy.length > 0;
    return { filter: whole, groupBy, bucketEdges, sort, limit: isLimited ? limit : undefined };
  });

describe('spend by groups', () => {
  it('equals the sums computed in memory, for any grouping, range, time zone and filter, in pages of any size', async () => {
    await fc.assert(
      fc.asyncProperty(query, fc.integer({ min: 1, max: 400 }), async (wanted, size) => {
        expect(await pages(wanted, Math.max(size, 50))).toEqual(sortedOracle(wanted));
      }),
      { numRuns: 120 },
    );
  });

  it('adds up to the ledger in every dimension', async () => {
    const filter = { from: new Date(FIRST), to: new Date(LAST) };
    const total = events.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
    const labels = HOSTILE_KEYS.map((key) => `label:${key}` as const);
    for (const name of [...SPEND_DIMENSIONS, ...labels]) {
      const rows = await pages({ filter, groupBy: [name], bucketEdges: [] }, 7);
      expect([name, rows.reduce((sum, { cost }) => sum + cost, 0n)]).toEqual([name, total]);
      expect(rows.reduce((sum, { attempts }) => sum + attempts, 0)).toBe(
        events.filter(({ outcome, cacheHit }) => outcome !== 'correction' && !cacheHit).length,
      );
    }
  });

  it('is the same by cursor as by pages', async () => {
    const filter = { from: new Date(FIRST), to: new Date(LAST) };
    const wanted: SpendQuery = {
      filter,
      groupBy: ['model', 'key', 'principal', 'user', 'label:__proto__'],
      bucketEdges: calendarEdges('hour', 'UTC', filter.from, filter.to),
    };
    const streamed: Expected[] = [];
    for await (const rows of streamSpendRows(db, wanted)) {
      expect(rows.length).toBeLessThanOrEqual(500);
      streamed.push(...rows.map(withoutPosition));
    }
    expect(streamed.length).toBeGreaterThan(500);
    expect(streamed).toEqual(oracle(wanted));
  });

  it('releases its connection when its reader stops', async () => {
    const filter = { from: new Date(FIRST), to: new Date(LAST) };
    for (let n = 0; n < 10; n++) {
      for await (const rows of streamSpendRows(db, { filter, groupBy: ['user'], bucketEdges: [] })) {
        expect(rows.length).toBeGreaterThan(0);
        break;
      }
    }
  });

  it('is the same by days, by hours, and by sums that are known since some day', async () => {
    const filter = { from: new Date(FIRST + 1_800_000), to: new Date(LAST) };
    const edges = calendarEdges('day', 'UTC', filter.from, filter.to);
    const times = [0, FIRST + 2 * 86_400_000, LAST].map((ms) => new Date(ms));
    for (const [bucketEdges, groupBy] of [
      [[], ['principal', 'model']],
      [edges, ['principal', 'model']],
      [edges, ['user']],
    ] as const) {
      const wanted: SpendQuery = { filter, groupBy, bucketEdges };
      for (const since of times) {
        for (const totals_since of times) {
          await db.updateTable('usage_by_day_since').set({ since, totals_since }).execute();
          expect(await pages(wanted, 50)).toEqual(oracle(wanted));
        }
      }
    }
    await db
      .updateTable('usage_by_day_since')
      .set({ since: new Date(0), totals_since: new Date(0) })
      .execute();
  });

  it('is read from the sums by hour where possible, even if the rows are gone', async () => {
    const filter = { from: new Date('2026-12-01T00:30:00Z'), to: new Date('2026-12-01T03:30:00Z') };
    const made = ['00:30', '01:00', '02:59', '03:00'].map((time, n) =>
      rowOf(
        {
          attempt: 1,
          modelAttempt: 1,
          shard: 1,
          cost: 10n ** BigInt(n),
          admittedAt: new Date(`2026-12-01T${time}:00Z`),
        },
        100_000 + n,
      ),
    );
    const read = async (query: Partial<SpendQuery>) =>
      (await pages({ filter, groupBy: [], bucketEdges: [], ...query }, 50)).map(({ cost }) => cost);
    await db.transaction().execute(async (tx) => {
      await tx.insertInto('usage_events').values(made).execute();
      await addToSums(
        tx,
        made.map((row) => ({ row })),
      );
    });
    const ids = made.slice(1, 3).map((row) => row.event_id);
    await db.deleteFrom('usage_events').where('event_id', 'in', ids).execute();
    expect(await read({})).toEqual([1_111n]);
    const edges = (zone: string) => calendarEdges('hour', zone, filter.from, filter.to);
    expect(await read({ bucketEdges: edges('UTC') })).toEqual([1n, 10n, 100n, 1_000n]);
    // Queries that only the rows can answer.
    expect(await read({ bucketEdges: edges('Asia/Kathmandu') })).toEqual([1n, 1_000n]);
    expect(await read({ groupBy: ['label:a'] })).toEqual([1_001n]);
  });
});
