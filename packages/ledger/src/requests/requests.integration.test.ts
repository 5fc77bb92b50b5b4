import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import fc from 'fast-check';
import { type KyselyPlugin, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EventFields, eventId, ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth } from '../../test/ledger.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import type { RequestFilter, RequestPosition } from './attemptsSql.ts';
import { findRequest, findRequests } from './requests.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  await openMonth(db, new Date('2026-11-10T12:00:00Z'));
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const START = Date.parse('2026-11-01T00:00:00Z');
/** Some times share an hour or a day, some are the start of one. */
const hours = (n: number) => new Date(START + n * 1_500_000);
const RANGE = { from: hours(0), to: hours(60) };

const WHOLE = { walk: 5_000, step: 500, ms: 60_000 };

/** The ids of all requests that match a filter, read by pages; `between` runs after each page. */
async function listed(
  filter: RequestFilter,
  size: number,
  { between = async () => {}, bounds = WHOLE } = {},
): Promise<string[]> {
  const ids: string[] = [];
  for (let after: RequestPosition | undefined; ; ) {
    const { requests, searchedTo } = await findRequests(
      db,
      filter,
      { after, limit: size },
      undefined,
      bounds,
    );
    ids.push(...requests.map(({ requestId }) => requestId));
    after = requests.length < size ? searchedTo : requests.at(-1)?.position;
    if (!after) return ids;
    await between();
  }
}

const isOneOf = (team: string | null | undefined, teamIds: readonly string[]) =>
  typeof team === 'string' && teamIds.includes(team);

describe('the list of requests', () => {
  it('has each request once, at its first attempt that matches, the newest first, however it is searched', async () => {
    const event: fc.Arbitrary<EventFields> = fc.record({
      request: fc.integer({ min: 0, max: 60 }).map((n) => `req_${n}`),
      principal: fc.constantFrom('ada', 'bob'),
      key: fc.constantFrom('key_1', 'key_2'),
      model: fc.constantFrom('mock/a', 'mock/b'),
      outcome: fc.constantFrom('success', 'upstream_error'),
      cost: fc.bigInt({ min: 0n, max: 3n }),
      estimated: fc.boolean(),
      // Few distinct times, so that many attempts share one.
      admittedAt: fc.integer({ min: 0, max: 40 }).map(hours),
      team: fc.constantFrom('team_a', 'team_b', null),
      attribution: fc.constantFrom({ project: 'x' }, { project: 'y' }, {}),
    });
    const events = fc.sample(event, { numRuns: 200, seed: 7 });
    await recordUsage(db, eventsOnly(events.map((fields, n) => ledgerEvent(n, fields))));
    const filters = fc.record<RequestFilter>(
      {
        from: fc.integer({ min: 0, max: 40 }).map(hours),
        to: fc.integer({ min: 0, max: 60 }).map(hours),
        principalId: fc.constantFrom('ada', 'bob'),
        model: fc.constantFrom('mock/a', 'mock/c'),
        within: fc.constantFrom(
          { principalId: 'ada', teamIds: [] },
          { principalId: 'ada', teamIds: ['team_a'] },
        ),
        teamId: fc.constantFrom('team_a', 'team_c'),
        project: fc.constantFrom('x', 'z'),
        outcome: fc.constantFrom('success', 'upstream_error'),
        minCost: fc.bigInt({ min: 0n, max: 3n }),
        estimated: fc.boolean(),
        requestId: fc.constantFrom('req_1', 'req_2'),
      },
      { requiredKeys: ['from', 'to'] },
    );
    const bounds = fc.record({
      walk: fc.constantFrom(1, 7, 5_000),
      step: fc.constantFrom(1, 20, 500),
      ms: fc.constantFrom(0, 60_000),
    });
    await fc.assert(
      fc.asyncProperty(filters, fc.integer({ min: 1, max: 40 }), bounds, async (filter, size, bound) => {
        const matching = events
          .map((fields, n) => ({
            ...fields,
            id: eventId(n, fields.admittedAt),
            at: Number(fields.admittedAt),
          }))
          .filter(({ at }) => at >= Number(filter.from) && at < Number(filter.to))
          .filter(({ principal }) => !filter.principalId || principal === filter.principalId)
          .filter(({ model }) => !filter.model || model === filter.model)
          .filter(
            ({ principal, team }) =>
              !filter.within || principal === 'ada' || isOneOf(team, filter.within.teamIds),
          )
          .filter(({ team }) => !filter.teamId || team === filter.teamId)
          .filter(({ attribution }) => !filter.project || attribution?.project === filter.project)
          .filter(({ outcome }) => !filter.outcome || outcome === filter.outcome)
          .filter(({ cost }) => filter.minCost === undefined || (cost ?? 0n) >= filter.minCost)
          .filter(({ estimated }) => filter.estimated === undefined || estimated === filter.estimated)
          .filter(({ request }) => !filter.requestId || request === filter.requestId)
          .sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
        const first = [...new Set(matching.map(({ request }) => request))];
        expect(await listed(filter, size, { bounds: bound })).toEqual(first.reverse());
      }),
      { numRuns: 300 },
    );
    const whole = await findRequest(db, 'req_1');
    expect(whole?.attempts.length).toBe(events.filter(({ request }) => request === 'req_1').length);
    expect(await findRequest(db, 'req_none')).toBeUndefined();
  });

  it('reads a bounded number of attempts at once, where the sums do not say which match', async () => {
    let steps = 0;
    const counting: KyselyPlugin = {
      transformQuery({ node }) {
        if (node.kind === 'RawNode' && node.sqlFragments.join('').includes('unnest(')) steps++;
        return node;
      },
      transformResult: async ({ result }) => result,
    };
    const filter = { ...RANGE, principalId: 'ada', minCost: 1_000_000n };
    const bounds = { walk: 1, step: 1, ms: 60_000 };
    const found = await findRequests(
      db.withPlugin(counting),
      filter,
      { after: undefined, limit: 500 },
      undefined,
      bounds,
    );
    expect(found).toEqual({ requests: [], searchedTo: undefined });
    const { rows } = await sql<{ hours: string }>`
      SELECT count(DISTINCT hour) AS hours FROM usage_by_hour WHERE principal_id = 'ada'`.execute(db);
    expect(steps).toBe(Number(rows[0]?.hours));
    expect(steps).toBeGreaterThan(10);
  });

  it('lists each existing request once, whatever is written between the pages', async () => {
    const before = await listed(RANGE, 500);
    let n = 1_000;
    const between = async () => {
      // A new request, and another attempt of each earlier one.
      const again = before.map((request) => ledgerEvent(n++, { request, admittedAt: hours(41) }));
      await recordUsage(db, eventsOnly([ledgerEvent(n++, { admittedAt: hours(42) }), ...again]));
    };
    const seen = await listed(RANGE, 7, { between });
    expect(seen).toEqual(before);
  });
});
