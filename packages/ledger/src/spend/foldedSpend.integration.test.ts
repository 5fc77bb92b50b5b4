import fc from 'fast-check';
import { beforeEach, expect, it } from 'vitest';
import { recordBounded } from '../../test/boundedSums.ts';
import type { EventFields } from '../../test/events.ts';
import { useLedger } from '../../test/ledger.ts';
import { OTHER } from './attributionBound.ts';
import { readSpendCompleteness } from './readSpendCompleteness.ts';
import { readSpendRows } from './spendBreakdown.ts';
import type { SpendDimension, SpendQuery } from './spendQuery.ts';
import { CALLERS_DIMENSIONS } from './usageSums.ts';

const ledger = useLedger();
const BOUND = 12;
const FROM = Date.parse('2026-11-10T00:00:00Z');
const HOUR_MS = 3_600_000;
const SEED = 20_261_129;

const one = (max: number) => fc.option(fc.nat({ max }).map(String), { nil: undefined });
const value = fc.oneof({ weight: 9, arbitrary: one(6) }, fc.constant(OTHER));
const event: fc.Arbitrary<EventFields> = fc.record({
  key: fc.constantFrom('key_1', 'key_2'),
  principal: fc.constantFrom('ada', 'bob'),
  model: fc.constantFrom('mock/echo', 'mock/other'),
  team: fc.constantFrom(null, 'team_1'),
  cost: fc.bigInt({ min: 0n, max: 1_000n }),
  admittedAt: fc.nat({ max: 71 }).map((quarter) => new Date(FROM + (quarter * HOUR_MS) / 1.5)),
  attribution: fc
    .record({
      user: one(60),
      team: value,
      project: value,
      env: value,
      workload_type: value,
      namespace: value,
      workload: value,
    })
    .map((some) => Object.fromEntries(Object.entries(some).filter(([, text]) => text !== undefined))),
});

let events: EventFields[];
beforeEach(async () => {
  events = fc.sample(event, { numRuns: 400, seed: SEED });
  for (let n = 0; n < events.length; n += 40) {
    await recordBounded(
      ledger.db,
      events.slice(n, n + 40).map((fields, at) => ({ ...fields, n: n + at })),
      BOUND,
    );
  }
});

const filterOf = (ends: readonly [number, number]) => ({
  from: new Date(FROM + Math.min(...ends) * HOUR_MS),
  to: new Date(FROM + (Math.max(...ends) + 1) * HOUR_MS),
});
const range = fc.tuple(fc.nat({ max: 71 }), fc.nat({ max: 71 })).map(filterOf);
const inRange = ({ from, to }: { from: Date; to: Date }) =>
  events.filter(({ admittedAt = new Date(0) }) => admittedAt >= from && admittedAt < to);
const costOf = (some: readonly EventFields[]) => some.reduce((sum, { cost = 0n }) => sum + cost, 0n);
const read = (query: Omit<SpendQuery, 'bucketEdges'>) =>
  readSpendRows(ledger.db, { ...query, bucketEdges: [] }, { after: undefined, limit: 5_000 });

const OF_EVENT: Readonly<Record<string, (fields: EventFields) => string | null | undefined>> = {
  key: ({ key }) => key,
  principal: ({ principal }) => principal,
  model: ({ model }) => model,
  team_id: ({ team }) => team,
};

it('adds up to the ledger by each dimension, exactly by those that callers do not choose', async () => {
  const dimensions: SpendDimension[] = ['key', 'principal', 'model', 'team_id', ...CALLERS_DIMENSIONS];
  await fc.assert(
    fc.asyncProperty(range, fc.constantFrom(...dimensions), async (filter, dimension) => {
      const rows = await read({ filter, groupBy: [dimension] });
      const within = inRange(filter);
      expect(rows.reduce((sum, { cost }) => sum + cost, 0n)).toBe(costOf(within));
      expect(rows.reduce((sum, { attempts }) => sum + attempts, 0)).toBe(within.length);
      const valueIn =
        OF_EVENT[dimension] ??
        ((fields: EventFields) => fields.attribution?.[dimension] as string | undefined);
      for (const { group, cost } of rows) {
        const truth = costOf(within.filter((fields) => (valueIn(fields) ?? null) === group[0]));
        if (group[0] === OTHER) expect(cost).toBeGreaterThanOrEqual(truth);
        else if (dimension in OF_EVENT || group[0] === null) expect(cost).toBe(truth);
        else expect(cost).toBeLessThanOrEqual(truth);
      }
    }),
    { seed: SEED, numRuns: 80 },
  );
});

it('says of a filter by values of callers if it lacks usage', async () => {
  const filters = ['user', 'team', 'project', 'env'] as const;
  const wanted = fc.dictionary(fc.constantFrom(...filters), fc.nat({ max: 8 }).map(String), {
    minKeys: 1,
    maxKeys: 2,
  });
  let lacking = 0;
  await fc.assert(
    fc.asyncProperty(range, wanted, fc.constantFrom(undefined, 'ada'), async (times, values, principalId) => {
      const query: SpendQuery = {
        filter: { ...times, ...values, principalId },
        groupBy: [],
        bucketEdges: [],
      };
      const { mayLackFolded, isComplete } = await readSpendCompleteness(ledger.db, query);
      const truth = costOf(
        inRange(times).filter(
          ({ attribution, principal }) =>
            (principalId === undefined || principal === principalId) &&
            Object.entries(values).every(([name, text]) => attribution?.[name] === text),
        ),
      );
      const [row] = await read(query);
      if (!mayLackFolded) expect(row?.cost ?? 0n).toBe(truth);
      else expect(isComplete).toBe(false);
      if ((row?.cost ?? 0n) !== truth) lacking++;
    }),
    { seed: SEED, numRuns: 80 },
  );
  expect(lacking).toBeGreaterThan(5);
});

it('lacks nothing without such a filter, and within an hour, where single attempts are read', async () => {
  const complete = async (filter: SpendQuery['filter'], groupBy: SpendDimension[] = []) =>
    (await readSpendCompleteness(ledger.db, { filter, groupBy, bucketEdges: [] })).mayLackFolded;
  const whole = { from: new Date(FROM), to: new Date(FROM + 72 * HOUR_MS) };
  expect(await complete({ ...whole, user: '3' })).toBe(true);
  expect(await complete(whole, ['user'])).toBe(false);
  const short = { from: new Date(FROM + 1), to: new Date(FROM + HOUR_MS - 1), user: '3' };
  expect(await complete(short)).toBe(false);
});
