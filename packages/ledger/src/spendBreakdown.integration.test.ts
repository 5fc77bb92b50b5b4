import { createDb, type Database } from '@weighbridge/database';
import { CALENDAR_UNITS, calendarEdges } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EventFields, ledgerEvent } from '../test/events.ts';
import type { LedgerFilter } from './ledgerFilter.ts';
import { recordUsage } from './recordUsage.ts';
import {
  readSpendRows,
  SPEND_DIMENSIONS,
  type SpendDimension,
  type SpendQuery,
  type SpendRow,
  streamSpendRows,
} from './spendBreakdown.ts';

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
// Hours around the changes of the clocks in Berlin and Havana, and the year between.
const SPOTS = [
  '2026-03-29T00:30:00Z',
  '2026-03-29T01:00:00Z',
  '2026-10-24T22:00:00Z',
  '2026-10-25T00:59:59.999Z',
  '2026-10-25T01:00:00Z',
  '2026-11-01T04:30:00Z',
  '2026-11-01T05:30:00Z',
].map((text) => Date.parse(text));

const value = fc.constantFrom(...VALUES);
const event: fc.Arbitrary<EventFields> = fc.record({
  request: fc.integer({ min: 0, max: 150 }).map((n) => `req_${n}`),
  key: fc.constantFrom('key_1', 'key_2'),
  principal: fc.constantFrom('ada', 'bob'),
  policies: fc.constantFrom(['pol_a'], ['pol_a', 'pol_b'], ['pol_b']),
  model: fc.constantFrom('mock/echo', 'mock/other', 'together/meta/llama', 'Mock/echo'),
  // Their sum is beyond what a bigint column holds.
  cost: fc.oneof(fc.bigInt({ min: 0n, max: 10n ** 18n }), fc.constantFrom(0n, 499n, 500n)),
  tokens: fc.integer({ min: 0, max: 400_000_000 }),
  estimated: fc.boolean(),
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
});
const dimension: fc.Arbitrary<SpendDimension> = fc.oneof(
  fc.constantFrom(...SPEND_DIMENSIONS),
  fc.constantFrom(...HOSTILE_KEYS).map((key) => `label:${key}` as const),
);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
let events: EventFields[];
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', maxConnections: 3, onIdleError: () => {} });
  events = fc.sample(event, { numRuns: 800, seed: 20_261_120 });
  // Their buckets would overflow, which is another story: here only the rows count.
  for (const [n, fields] of events.entries()) {
    const { row, buckets } = ledgerEvent(n, fields);
    const json = buckets.map(({ policyId }) => ({ policy_id: policyId }));
    await db
      .insertInto('usage_events')
      .values({ ...row, buckets: JSON.stringify(json) })
      .execute();
  }
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

/** What an event's value is, by the plainest reading. */
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
    default:
      return (attribution[name] as string | undefined) ?? null;
  }
}

type Expected = Omit<SpendRow, 'position'>;

function oracle(query: SpendQuery): Expected[] {
  const { filter } = query;
  const groups = new Map<string, { bucketStart: Date | null; group: (string | null)[]; of: EventFields[] }>();
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
  const sum = (of: EventFields[], factor: number) =>
    of.reduce((total, fields) => total + (fields.tokens ?? 0) * factor, 0);
  const distinct = (of: EventFields[]) => new Set(of.map(({ request }) => request)).size;
  const failed = ['upstream_error', 'upstream_unreachable', 'interrupted'];
  return [...groups.values()].sort(byPosition).map(({ bucketStart, group, of }) => ({
    bucketStart,
    group,
    requests: distinct(of),
    attempts: of.length,
    estimatedRequests: distinct(of.filter(({ estimated }) => estimated)),
    errors: of.filter(({ outcome }) => failed.includes(outcome ?? '')).length,
    inputTokens: sum(of, 1),
    cacheReadTokens: sum(of, 2),
    cacheWriteTokens: sum(of, 3),
    cacheWrite1hTokens: sum(of, 4),
    outputTokens: sum(of, 5),
    cost: of.reduce((total, { cost }) => total + (cost ?? 0n), 0n),
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
  })
  .map(({ ends, groupBy, unit, zone, filter, narrow }) => {
    const from = new Date(Math.min(...ends));
    const to = new Date(Math.max(...ends) + 1);
    const whole: LedgerFilter = { ...(narrow ? filter : {}), from, to };
    return { filter: whole, groupBy, bucketEdges: unit ? calendarEdges(unit, zone, from, to) : [] };
  });

describe('spend by groups', () => {
  it('is what adding up by hand gives, for any grouping, range, time zone and filter, on pages of any size', async () => {
    await fc.assert(
      fc.asyncProperty(query, fc.integer({ min: 1, max: 400 }), async (wanted, size) => {
        expect(await pages(wanted, Math.max(size, 50))).toEqual(oracle(wanted));
      }),
      { numRuns: 60 },
    );
  });

  it('adds up to the ledger in every dimension', async () => {
    const filter = { from: new Date(FIRST), to: new Date(LAST) };
    const total = events.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);
    const labels = HOSTILE_KEYS.map((key) => `label:${key}` as const);
    for (const name of [...SPEND_DIMENSIONS, ...labels]) {
      const rows = await pages({ filter, groupBy: [name], bucketEdges: [] }, 7);
      expect([name, rows.reduce((sum, { cost }) => sum + cost, 0n)]).toEqual([name, total]);
      expect(rows.reduce((sum, { attempts }) => sum + attempts, 0)).toBe(events.length);
    }
  });

  it('comes by a cursor as it comes by pages', async () => {
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

  it('lets its connection go when nobody reads on', async () => {
    const filter = { from: new Date(FIRST), to: new Date(LAST) };
    for (let n = 0; n < 10; n++) {
      for await (const rows of streamSpendRows(db, { filter, groupBy: ['user'], bucketEdges: [] })) {
        expect(rows.length).toBeGreaterThan(0);
        break;
      }
    }
  });

  it('finds what recordUsage wrote, under its governing policy and its provider', async () => {
    const admittedAt = new Date('2027-01-01T00:00:00Z');
    const made = ledgerEvent(100_000, { policies: ['pol_x', 'pol_y'], model: 'p/q/r', cost: 5n, admittedAt });
    await recordUsage(db, [made]);
    const filter = { from: admittedAt, to: new Date(admittedAt.getTime() + 1) };
    const rows = await readSpendRows(
      db,
      { filter, groupBy: ['policy', 'provider'], bucketEdges: [] },
      { after: undefined, limit: 10 },
    );
    expect(rows).toMatchObject([{ group: ['pol_x', 'p'], cost: 5n, attempts: 1 }]);
  });
});
