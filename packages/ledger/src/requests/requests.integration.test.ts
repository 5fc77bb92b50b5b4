import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EventFields, eventId, ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth } from '../../test/ledger.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { findRequest, findRequests, type RequestFilter, type RequestPosition } from './requests.ts';

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
const RANGE = { from: new Date(START), to: new Date(START + 10_000) };
const seconds = (n: number) => new Date(START + n);

/** The ids of all requests that match a filter, read by pages; `between` runs after each page. */
async function listed(filter: RequestFilter, size: number, between = async () => {}): Promise<string[]> {
  const ids: string[] = [];
  for (let after: RequestPosition | undefined; ; ) {
    const found = await findRequests(db, filter, { after, limit: size });
    ids.push(...found.map(({ requestId }) => requestId));
    after = found.at(-1)?.position;
    if (found.length < size) return ids;
    await between();
  }
}

describe('the list of requests', () => {
  it('has each request once, at its first attempt that matches the filter, the newest first', async () => {
    const event: fc.Arbitrary<EventFields> = fc.record({
      request: fc.integer({ min: 0, max: 60 }).map((n) => `req_${n}`),
      principal: fc.constantFrom('ada', 'bob'),
      model: fc.constantFrom('mock/a', 'mock/b'),
      outcome: fc.constantFrom('success', 'upstream_error'),
      cost: fc.bigInt({ min: 0n, max: 3n }),
      estimated: fc.boolean(),
      // Few distinct times, so that many attempts share one.
      admittedAt: fc.integer({ min: 0, max: 40 }).map(seconds),
    });
    const events = fc.sample(event, { numRuns: 200, seed: 7 });
    await recordUsage(db, eventsOnly(events.map((fields, n) => ledgerEvent(n, fields))));
    const filters = fc.record<RequestFilter>(
      {
        from: fc.integer({ min: 0, max: 40 }).map(seconds),
        to: fc.integer({ min: 0, max: 60 }).map(seconds),
        principalId: fc.constantFrom('ada', 'bob'),
        model: fc.constantFrom('mock/a', 'mock/c'),
        outcome: fc.constantFrom('success', 'upstream_error'),
        minCost: fc.bigInt({ min: 0n, max: 3n }),
        estimated: fc.boolean(),
        requestId: fc.constantFrom('req_1', 'req_2'),
      },
      { requiredKeys: ['from', 'to'] },
    );
    await fc.assert(
      fc.asyncProperty(filters, fc.integer({ min: 1, max: 40 }), async (filter, size) => {
        const matching = events
          .map((fields, n) => ({
            ...fields,
            id: eventId(n, fields.admittedAt),
            at: Number(fields.admittedAt),
          }))
          .filter(({ at }) => at >= Number(filter.from) && at < Number(filter.to))
          .filter(({ principal }) => !filter.principalId || principal === filter.principalId)
          .filter(({ model }) => !filter.model || model === filter.model)
          .filter(({ outcome }) => !filter.outcome || outcome === filter.outcome)
          .filter(({ cost }) => filter.minCost === undefined || (cost ?? 0n) >= filter.minCost)
          .filter(({ estimated }) => filter.estimated === undefined || estimated === filter.estimated)
          .filter(({ request }) => !filter.requestId || request === filter.requestId)
          .sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
        const first = [...new Set(matching.map(({ request }) => request))];
        expect(await listed(filter, size)).toEqual(first.reverse());
      }),
      { numRuns: 100 },
    );
    const whole = await findRequest(db, 'req_1');
    expect(whole?.attempts.length).toBe(events.filter(({ request }) => request === 'req_1').length);
    expect(await findRequest(db, 'req_none')).toBeUndefined();
  });

  it('lists each existing request once, whatever is written between the pages', async () => {
    const before = await listed(RANGE, 500);
    let n = 1_000;
    const seen = await listed(RANGE, 7, async () => {
      // A new request, and another attempt of each earlier one.
      const again = before.map((request) => ledgerEvent(n++, { request, admittedAt: seconds(9_000) }));
      await recordUsage(db, eventsOnly([ledgerEvent(n++, { admittedAt: seconds(9_001) }), ...again]));
    });
    expect(seen).toEqual(before);
  });
});
