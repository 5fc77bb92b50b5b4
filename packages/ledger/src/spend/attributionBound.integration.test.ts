import fc from 'fast-check';
import { type RawBuilder, sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { countOf, recordBounded } from '../../test/boundedSums.ts';
import { type EventFields, ledgerEvent } from '../../test/events.ts';
import { useLedger } from '../../test/ledger.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import { findRequests } from '../requests/requests.ts';
import { MAX_COMBINATIONS, OTHER } from './attributionBound.ts';
import { readSpendRows } from './spendBreakdown.ts';
import { readSumsSince } from './sumsSince.ts';
import {
  addToExisting,
  columnsOf,
  eventDimension,
  eventMeasure,
  groupSha256,
  HOURS,
  SUM_DIMENSIONS,
  SUM_MEASURES,
} from './usageSums.ts';

const ledger = useLedger();
const BOUND = 20;
const DAY = { from: new Date('2026-11-10T00:00:00Z'), to: new Date('2026-11-11T00:00:00Z') };
let next: number;
beforeEach(() => {
  next = 1;
});

const record = (events: readonly EventFields[], bound = BOUND) =>
  recordBounded(
    ledger.db,
    events.map((fields) => ({ ...fields, n: next++ })),
    bound,
  );
const users = (from: number, count: number, fields: EventFields = {}): EventFields[] =>
  Array.from({ length: count }, (_, n) => ({ ...fields, attribution: { user: `user ${from + n}` } }));
const digits = (max: number) => fc.nat({ max }).map(String);
const anyEvent: fc.Arbitrary<EventFields> = fc.record({
  key: fc.constantFrom('key_1', 'key_2', 'key_3'),
  team: fc.constantFrom(null, 'team_1'),
  admittedAt: fc.nat({ max: 39 }).map((hour) => new Date(DAY.from.getTime() + hour * 3_600_000)),
  attribution: fc.record({ user: digits(40), team: digits(4) }),
});
const groupsOf = async (key = 'key_1') =>
  await countOf(
    ledger.db,
    sql`SELECT DISTINCT "user", team, project, env FROM usage_by_hour WHERE key_id = ${key}`,
  );
const differing = async () => (await rebuildBuckets(ledger.db, { apply: false })).differingHours;
const byUser = async (filter: { user?: string } = {}) =>
  await readSpendRows(
    ledger.db,
    { filter: { ...DAY, ...filter }, groupBy: ['user'], bucketEdges: [] },
    { after: undefined, limit: 5_000 },
  );

describe('a key with a new user for each request', () => {
  it('has a bounded number of sums a day, and one for its total', async () => {
    for (let n = 0; n < 10; n++) await record(users(n * 2_000, 2_000), MAX_COMBINATIONS);
    for (const table of ['usage_by_hour', 'usage_by_day']) {
      expect(await countOf(ledger.db, sql`SELECT FROM ${sql.table(table)}`)).toBeLessThanOrEqual(
        MAX_COMBINATIONS + 1,
      );
      expect(await countOf(ledger.db, sql`SELECT FROM ${sql.table(table.replace('by', 'totals_by'))}`)).toBe(
        1,
      );
    }
    const rows = await byUser();
    expect(rows.find(({ group }) => group[0] === OTHER)).toMatchObject({ requests: 19_100 });
    expect(rows.reduce((sum, { cost }) => sum + cost, 0n)).toBe(20_000n);
    expect(await differing()).toBe(0);
  });

  it('gets new room on each day, also for late events of earlier days, and takes none from another key', async () => {
    const days = ['2026-11-12', '2026-11-10', '2026-11-11', '2026-11-10'];
    for (const day of days) await record(users(next, 30, { admittedAt: new Date(`${day}T10:00:00Z`) }));
    await record(users(0, 5, { key: 'key_2' }));
    const { rows } = await sql<{ key: string; own: number }>`
      SELECT key_id AS key, count(*)::integer AS own FROM usage_by_day WHERE "user" <> ${OTHER}
      GROUP BY day, key_id ORDER BY key_id, day`.execute(ledger.db);
    expect(rows).toEqual([...[18, 18, 18].map((own) => ({ key: 'key_1', own })), { key: 'key_2', own: 5 }]);
    expect(await differing()).toBe(0);
  });

  it('keeps its true values in the ledger: a request of a user without sums of its own is found', async () => {
    await record(users(0, 200));
    const page = { after: undefined, limit: 10 };
    const filter = { ...DAY, user: 'user 150' };
    const { requests } = await findRequests(ledger.db, filter, page, undefined, {
      walk: 10,
      step: 10,
      ms: 60_000,
    });
    expect(requests.map(({ requestId }) => requestId)).toEqual(['req_151']);
    expect(await byUser({ user: 'user 150' })).toEqual([]);
  });
});

it.each([1, 7, 42])(
  'writers at the same time stay within the bound, and count each event once (seed %i)',
  async (seed) => {
    const write = async (writer: number) => {
      for (let batch = 0; batch < 6; batch++) {
        await record(fc.sample(anyEvent, { numRuns: 12, seed: seed + 100 * writer + batch }));
      }
    };
    await Promise.all([write(1), write(2), write(3), write(4)]);
    const { rows } = await sql<{ combinations: number; own: number }>`
    SELECT combinations, (SELECT count(*)::integer FROM usage_attributions AS own
      WHERE own.day = days.day AND own.key_id = days.key_id) AS own
    FROM usage_attribution_days AS days`.execute(ledger.db);
    expect(rows).toHaveLength(6);
    for (const { combinations, own } of rows) {
      expect(own).toBe(combinations);
      expect(own).toBeLessThanOrEqual(BOUND);
    }
    expect(await differing()).toBe(0);
    const total = await sql`SELECT sum(requests)::integer AS n FROM usage_by_day`.execute(ledger.db);
    expect(total.rows).toEqual([{ n: 4 * 6 * 12 }]);
  },
);

it('writers of different keys do not wait for each other, nor those of a key without room', async () => {
  await record(Array.from({ length: 100 }, (_, n) => ({ attribution: { user: `${n}`, team: `${n}` } })));
  await ledger.db.transaction().execute(async (tx) => {
    await sql`SELECT FROM usage_attribution_days FOR UPDATE`.execute(tx);
    await record(users(0, 5, { key: 'key_2' }));
    await record(users(500, 5));
  });
  expect(await differing()).toBe(0);
});

it('a caller that sends (other) counts there, and nothing else changes', async () => {
  const other = [{ user: OTHER }, { user: OTHER, team: OTHER }, { team: OTHER, env: 'prod' }];
  const given = other.map((attribution) => ({ attribution }));
  await record(given);
  await record(Array.from({ length: 60 }, (_, n) => ({ attribution: { user: `${n}`, team: `${n}` } })));
  await record(given);
  expect(await groupsOf()).toBeLessThanOrEqual(BOUND + 8);
  const sums = await byUser();
  expect(sums.reduce((sum, { requests }) => sum + requests, 0)).toBe(66);
  expect(await differing()).toBe(0);
});

describe('a release that knows no bound', () => {
  /** Writes events and their hours alone, under their true values, and announces nothing. */
  const recordEarlier = async (events: readonly EventFields[]) => {
    const rows = events.map((fields) => ({
      ...ledgerEvent(next++, fields).row,
      bucket_keys: ['pol/1/0/policy'],
    }));
    await ledger.db.insertInto('usage_events').values(rows).execute();
    const named = <T extends string>(names: readonly T[], of: (name: T) => RawBuilder<unknown>) =>
      sql.join(names.map((name) => sql`${of(name)} AS ${sql.ref(name)}`));
    await sql`
      INSERT INTO usage_by_hour (${columnsOf(HOURS)})
      SELECT hour, ${groupSha256(HOURS)}, 0, ${sql.join([...SUM_DIMENSIONS, ...SUM_MEASURES].map((name) => sql.ref(name)))}
      FROM (
        SELECT date_trunc('hour', admitted_at, 'UTC') AS hour, ${named(SUM_DIMENSIONS, eventDimension)},
          ${named(SUM_MEASURES, eventMeasure)}
        FROM usage_events WHERE event_id = ANY (${rows.map(({ event_id }) => event_id)}::uuid[])
      ) AS event
      ${addToExisting(HOURS)}`.execute(ledger.db);
  };

  it('leaves sums that are read as they are, and that the comparison accepts', async () => {
    await recordEarlier(users(0, 60));
    expect((await readSumsSince(ledger.db)).totals.getTime()).toBeGreaterThan(DAY.to.getTime());
    const before = await byUser();
    expect(before).toHaveLength(60);
    expect(await differing()).toBe(0);
    await record(users(100, 60));
    expect(await differing()).toBe(0);
    const rows = await byUser();
    expect(rows).toEqual(expect.arrayContaining(before));
    expect(rows.reduce((sum, { cost }) => sum + cost, 0n)).toBe(120n);
  });

  it('may write on a day without room: nothing differs, and a rebuild adds nothing', async () => {
    await record(users(0, 60));
    await recordEarlier(users(50, 20));
    await record(users(40, 60));
    expect(await differing()).toBe(0);
    const before = await byUser();
    expect(before.reduce((sum, { cost }) => sum + cost, 0n)).toBe(140n);
    await rebuildBuckets(ledger.db, { apply: true, maxCombinations: BOUND });
    expect(await byUser()).toEqual(before);
    await sql`UPDATE usage_by_hour SET requests = requests - 1 WHERE "user" = 'user 55'`.execute(ledger.db);
    expect((await rebuildBuckets(ledger.db, { apply: true, maxCombinations: BOUND })).differingHours).toBe(1);
    expect(await differing()).toBe(0);
    expect((await byUser()).reduce((sum, { requests }) => sum + requests, 0)).toBe(140);
  });
});

describe('a rebuild', () => {
  it('writes missing sums within the bound, and repairs what differs without new groups', async () => {
    await record(users(0, 60));
    for (const table of [
      'usage_by_hour',
      'usage_by_day',
      'usage_totals_by_hour',
      'usage_attributions',
      'usage_attribution_days',
    ]) {
      await sql`DELETE FROM ${sql.table(table)}`.execute(ledger.db);
    }
    await ledger.db
      .updateTable('usage_by_day_since')
      .set({ since: new Date(0), totals_since: new Date(0) })
      .execute();
    const apply = async () => await rebuildBuckets(ledger.db, { apply: true, maxCombinations: BOUND });
    expect((await apply()).differingHours).toBeGreaterThan(60);
    expect(await groupsOf()).toBeLessThanOrEqual(BOUND + 1);
    expect(await differing()).toBe(0);
    const before = await byUser();
    await sql`UPDATE usage_by_hour SET cost_nano_usd = cost_nano_usd + 5 WHERE "user" = ${OTHER}`.execute(
      ledger.db,
    );
    await sql`DELETE FROM usage_by_hour WHERE "user" <> ${OTHER}`.execute(ledger.db);
    expect(await differing()).toBeGreaterThan(0);
    await apply();
    expect(await differing()).toBe(0);
    expect(await groupsOf()).toBeLessThanOrEqual(BOUND + 1);
    expect(await byUser()).toEqual(before);
  });
});
