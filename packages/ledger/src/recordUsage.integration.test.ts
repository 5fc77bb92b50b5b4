import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type BucketRef, keySubject, principalSubject } from './buckets.ts';
import { readSpend, readSpent } from './readSpend.ts';
import { type LedgerEvent, recordUsage } from './recordUsage.ts';

const windowStart = new Date('2026-11-01T00:00:00Z');
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});
beforeEach(async () => {
  await db.deleteFrom('usage_events').execute();
  await db.deleteFrom('spend_buckets').execute();
});

const counter = (subject: string, policyId = 'pol_a'): BucketRef => ({
  policyId,
  counterVersion: 1,
  subject,
  windowStart,
});

const event = (n: number, cost: bigint, buckets: BucketRef[], principal = 'ada'): LedgerEvent => ({
  row: {
    event_id: `01900000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`,
    request_id: `req_${n}`,
    key_id: 'key_1',
    principal_id: principal,
    model_requested: 'mock/echo',
    model: 'mock/echo',
    connector_id: 'con_1',
    input_tokens: 1,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 1,
    cost_nano_usd: cost,
    price_version: 1,
    estimated: false,
    outcome: 'success',
    http_status: 200,
    streamed: false,
    admitted_at: windowStart,
    settled_at: new Date(windowStart.getTime() + n),
    first_byte_us: 1,
    duration_us: 2,
    attribution: '{}',
    response_id: '',
  },
  buckets,
});

describe('recordUsage', () => {
  it('counts an event once, however often and in whatever company it comes', async () => {
    const byPrincipal = counter(principalSubject('ada'));
    const [first, second] = [event(1, 100n, [byPrincipal]), event(2, 23n, [byPrincipal])];

    expect(await recordUsage(db, [first, first])).toBe(1);
    expect(await recordUsage(db, [second, first])).toBe(1);
    expect(await recordUsage(db, [second])).toBe(0);

    expect(await readSpend(db, byPrincipal, 'ada')).toMatchObject({
      spent: 123n,
      principalSpent: 123n,
      asOf: second.row.settled_at,
    });
  });

  it("counts in every policy of the chain, and in the principal's own sum of each", async () => {
    const own = counter(keySubject('key_1'));
    const parent = counter('policy', 'pol_parent');
    await recordUsage(db, [event(1, 5n, [own, parent], 'ada'), event(2, 7n, [own, parent], 'bob')]);

    expect(await readSpend(db, own, 'ada')).toMatchObject({ spent: 12n, principalSpent: 5n });
    expect(await readSpend(db, parent, 'bob')).toMatchObject({ spent: 12n, principalSpent: 7n });
    expect([...(await readSpent(db, [own, counter('policy')])).values()]).toEqual([12n, 0n]);
  });

  it('counts exactly when many writers write the same buckets at once', async () => {
    const shared = counter('policy');
    const batches = Array.from({ length: 8 }, (_, batch) =>
      Array.from({ length: 50 }, (_, i) =>
        event(batch * 25 + i, 1n, [shared, counter(keySubject(`key_${i % 7}`))]),
      ),
    );
    await Promise.all(batches.map((batch) => recordUsage(db, batch)));
    // Neighbouring batches overlap by half: 8 × 25 + 25 events in all.
    expect((await readSpent(db, [shared])).values().next().value).toBe(225n);
  });

  it('is all or nothing: a batch that fails leaves no trace', async () => {
    const broken = event(2, 1n, [counter('policy')]);
    const batch = [
      event(1, 1n, [counter('policy')]),
      { ...broken, row: { ...broken.row, event_id: 'not a uuid' } },
    ];
    await expect(recordUsage(db, batch)).rejects.toThrow();
    expect(await db.selectFrom('usage_events').selectAll().execute()).toEqual([]);
  });

  it('is as of the snapshot itself where nothing was ever counted', async () => {
    const spend = await readSpend(db, counter('policy'), 'ada');
    expect(spend).toMatchObject({ spent: 0n, principalSpent: 0n });
    expect(spend.asOf).toEqual(spend.queriedAt);
  });
});
