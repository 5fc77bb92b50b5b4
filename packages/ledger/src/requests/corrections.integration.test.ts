import { createDb, type Database } from '@weighbridge/database';
import { newUuid } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type EventFields, eventId, ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { openCounter } from '../counters/openCounter.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { readSpendRows } from '../spend/spendBreakdown.ts';
import { type Correction, recordCorrection } from './corrections.ts';
import { findRequest } from './requests.ts';

const admittedAt = new Date('2026-11-10T12:00:00Z');
const now = new Date('2026-11-20T10:00:00Z');

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
beforeEach(async () => {
  for (const table of ['usage_events', 'spend_buckets', 'usage_by_hour', 'policies'] as const) {
    await db.deleteFrom(table).execute();
  }
});

const record = (...fields: EventFields[]) =>
  recordUsage(
    db,
    eventsOnly(fields.map((one, n) => ledgerEvent(n, { admittedAt, request: 'req_1', ...one }))),
  );

async function correct(fields: Partial<Correction> & Pick<Correction, 'amountNanoUsd'>) {
  const correction = {
    correctionId: newUuid(),
    requestId: 'req_1',
    reason: 'the invoice says so',
    now,
    ...fields,
  };
  return await db.transaction().execute((tx) => recordCorrection(tx, correction));
}

/** The spend of each bucket of the policies, by key. */
async function spent(): Promise<Record<string, bigint>> {
  const rows = await db.selectFrom('spend_buckets').selectAll().execute();
  return Object.fromEntries(rows.map((row) => [row.bucket_key, row.spent_nano_usd]));
}

describe('a correction', () => {
  it('is its own row, and counts in every bucket and breakdown of its attempt, by cost only', async () => {
    await record({ cost: 100n, policies: ['pol_a', 'pol_b'], attribution: { team: 't' } }, { cost: 7n });
    const before = await spent();
    const row = await correct({ amountNanoUsd: -30n });
    expect(row).toMatchObject({
      kind: 'correction',
      corrects: eventId(0),
      reason: 'the invoice says so',
      cost_nano_usd: -30n,
      admitted_at: admittedAt,
      settled_at: now,
      attempt: 0,
      input_tokens: 0,
    });
    const after = await spent();
    const changed = Object.keys(after).map((key) => [
      key.split('/')[0],
      (after[key] ?? 0n) - (before[key] ?? 0n),
    ]);
    expect(changed.sort()).toEqual([
      ['pol_a', -30n],
      ['pol_a', -30n],
      ['pol_b', -30n],
      ['pol_b', -30n],
    ]);
    // Once read from the hours, once from the rows.
    for (const to of [new Date('2026-11-11T00:00:00Z'), new Date(admittedAt.getTime() + 1)]) {
      const query = { filter: { from: admittedAt, to }, groupBy: ['team' as const], bucketEdges: [] };
      expect(await readSpendRows(db, query, { after: undefined, limit: 10 })).toMatchObject([
        { group: [null], cost: 7n, attempts: 1 },
        { group: ['t'], cost: 70n, attempts: 1, requests: 1, inputTokens: 1, errors: 0 },
      ]);
    }
    expect(await rebuildBuckets(db, { apply: false })).toMatchObject({
      differing: [],
      differingHours: 0,
      events: 3n,
    });
  });

  it('applies to the attempt that it names, and is not recorded if there is none', async () => {
    await record({ cost: 1n }, { cost: 2n }, { cost: 4n, request: 'req_2' });
    const correction = await correct({ amountNanoUsd: 8n, eventId: eventId(1) });
    expect(correction?.corrects).toBe(eventId(1));
    expect(await correct({ amountNanoUsd: 8n, eventId: eventId(2) })).toBeUndefined();
    expect(await correct({ amountNanoUsd: 8n, eventId: correction?.event_id })).toBeUndefined();
    expect(await correct({ amountNanoUsd: 8n, requestId: 'req_3' })).toBeUndefined();
    const request = await findRequest(db, 'req_1');
    expect(request?.attempts.map((row) => row.cost_nano_usd)).toEqual([1n, 2n]);
    expect(request?.corrections.map((row) => row.cost_nano_usd)).toEqual([8n]);
  });

  it('is recorded once, however often and concurrently it is sent', async () => {
    await record({ cost: 100n });
    const same = { correctionId: newUuid(), amountNanoUsd: 11n };
    const rows = await Promise.all([correct(same), correct(same), correct(same)]);
    rows.push(await correct(same));
    expect(new Set(rows.map((row) => row?.event_id))).toEqual(new Set([same.correctionId]));
    expect(new Set(Object.values(await spent()))).toEqual(new Set([111n]));
  });

  it("counts in the counter that replaced its attempt's, too", async () => {
    const id = 'pol_a';
    await insertPolicy(db, id, { created_at: new Date('2026-11-01T00:00:00Z') });
    await record({ cost: 100n, principal: 'ada' });
    await db.transaction().execute(async (tx) => {
      const policy = await tx
        .updateTable('policies')
        .set({ window_kind: 'month', counter_scope: 'policy', counter_version: 2, counter_since: now })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow();
      await openCounter(tx, policy, now);
    });
    await correct({ amountNanoUsd: 5n });
    expect(await spent()).toEqual({
      'pol_a/1/1793491200000/policy': 105n,
      'pol_a/1/1793491200000/principal:ada': 105n,
      'pol_a/2/1793491200000/policy': 105n,
      'pol_a/2/1793491200000/principal:ada': 105n,
    });
    expect(await rebuildBuckets(db, { apply: false })).toMatchObject({ differing: [], differingHours: 0 });
  });
});
