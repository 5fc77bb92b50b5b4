import { bucketKey, windowStartOf } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { createExplainedDatabase, createTestDatabase, type ExplainedStatement } from '@weighbridge/testing';
import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { type EventFields, eventId, ledgerEvent } from '../test/events.ts';
import {
  COMPANY_BUCKET,
  describeCost,
  growLedger,
  holder,
  keyBucket,
  keyName,
  NOW,
  principalOf,
} from '../test/grownLedger.ts';
import { lockCounters } from './buckets/lockCounters.ts';
import { setBucketLimits } from './budgets/setBucketLimits.ts';
import { carryLeases } from './counters/carryLeases.ts';
import type { UsageToRecord } from './events/usage.ts';
import { answerLeaseCalls } from './leases/answerLeaseCalls.ts';
import { closeLeases } from './leases/closeLeases.ts';
import { pruneLeases } from './leases/pruneLeases.ts';
import { readUnattributed } from './leases/readUnattributed.ts';
import { foldWindows } from './maintenance/foldWindows.ts';
import { hasAppendedSpend, mergeSpend } from './merging/mergeSpend.ts';
import { findKnownEpochs } from './producers/findKnownEpochs.ts';
import { closeEpoch, recordWatermarks, registerProducer } from './producers/producers.ts';
import { grantRates } from './rates/rates.ts';
import { recordUsage } from './recording/recordUsage.ts';
import { touchKeys } from './recording/touchKeys.ts';
import { recordCorrection } from './requests/corrections.ts';

const EVENTS = 2_000;
const CALLS = 500;
const FAR_AHEAD = new Date('2200-01-01T00:00:00Z');
/** The key of a bucket whose window ended, as those behind it did. */
const YESTERDAY = bucketKey({ ...keyBucket(0), windowStartMs: keyBucket(0).windowStartMs - 86_400_000n });

/** A batch of one epoch, each event of another key unless `fieldsOf` says otherwise. */
function batch(
  from: number,
  epoch: ReturnType<typeof holder>,
  firstN: bigint,
  fieldsOf: (n: number) => EventFields = () => ({}),
): UsageToRecord {
  const events = Array.from({ length: EVENTS }, (_, n) => {
    const fields = { key: keyName(n), principal: principalOf(n), cost: 10n, ...fieldsOf(n) };
    const { row } = ledgerEvent(from + n, fields);
    return {
      workloadType: undefined,
      row: {
        ...row,
        ...{ producer_id: epoch.producerId, epoch: epoch.epoch, shard: 0, n: firstN + BigInt(n) },
      },
      buckets: [keyBucket(n), COMPANY_BUCKET],
    };
  });
  return { events, refused: [], received: [{ ...epoch, shard: 0, firstN, count: EVENTS }] };
}

const leaseCalls = (from: number, seq: bigint) =>
  Array.from({ length: CALLS }, (_, n) => ({
    bucket: n === 0 ? COMPANY_BUCKET : keyBucket(from + n),
    seq,
    returnedNanoUsd: 0n,
    wantNanoUsd: 1_000n,
    minimumNanoUsd: 1n,
  }));

/** What writes the ledger, in this order: a name, for how many rows it is, and the operation. */
const OPERATIONS: readonly (readonly [string, number, (db: Database) => Promise<unknown>])[] = [
  ['a batch whose numbers follow', EVENTS, (db) => recordUsage(db, batch(0, holder(0), 101n), NOW)],
  ['the same batch, delivered again', EVENTS, (db) => recordUsage(db, batch(0, holder(0), 101n), NOW)],
  ['a batch of a new epoch', EVENTS, (db) => recordUsage(db, batch(EVENTS, holder(5_000), 1n), NOW)],
  [
    'a batch of new users',
    EVENTS,
    (db) =>
      recordUsage(
        db,
        batch(2 * EVENTS, holder(5_001), 1n, (n) => ({ attribution: { user: `${n}` } })),
        NOW,
      ),
  ],
  [
    'a batch of a key whose users have no room',
    EVENTS,
    (db) =>
      recordUsage(
        db,
        batch(3 * EVENTS, holder(5_002), 1n, (n) => ({
          key: 'key_many',
          attribution: { user: `${n}`, team: `${n}` },
        })),
        NOW,
      ),
  ],
  [
    'a batch that appends what it spent of a shared bucket',
    EVENTS,
    (db) => recordUsage(db, batch(4 * EVENTS, holder(5_003), 1n), NOW, { appends: true }),
  ],
  [
    'numbers of many epochs',
    CALLS,
    (db) =>
      recordUsage(
        db,
        {
          events: [],
          refused: [],
          received: Array.from({ length: 500 }, (_, n) => ({
            ...holder(n),
            shard: 1,
            firstN: 101n,
            count: 1,
          })),
        },
        NOW,
      ),
  ],
  ['the last use of keys', EVENTS, (db) => touchKeys(db, batch(0, holder(0), 1n).events, NOW)],
  [
    'a correction',
    1,
    (db) =>
      db.transaction().execute((tx) =>
        recordCorrection(tx, {
          correctionId: eventId(9_000_000),
          requestId: 'req_7',
          amountNanoUsd: 5n,
          reason: 'test',
          now: NOW,
        }),
      ),
  ],
  [
    'calls for held leases',
    CALLS,
    (db) => answerLeaseCalls(db, { ...holder(0), now: NOW, calls: leaseCalls(0, 2n) }),
  ],
  [
    'calls for new leases',
    CALLS,
    (db) => answerLeaseCalls(db, { ...holder(17), now: NOW, calls: leaseCalls(3_000, 2n) }),
  ],
  ['whether there is spend to merge', 1, (db) => hasAppendedSpend(db)],
  ['merging spend of many epochs', 51, (db) => mergeSpend(db, NOW)],
  [
    'calls for leases on buckets without rows',
    CALLS,
    (db) =>
      answerLeaseCalls(db, {
        ...holder(0),
        now: NOW,
        calls: leaseCalls(0, 3n).map((call) => ({
          ...call,
          bucket: { ...call.bucket, subject: `${call.bucket.subject}x` },
        })),
      }),
  ],
  [
    'the holds of lost proxies',
    CALLS,
    (db) =>
      readUnattributed(
        db,
        leaseCalls(0, 1n).map(({ bucket }) => bucketKey(bucket)),
      ),
  ],
  [
    'rates',
    CALLS,
    (db) =>
      grantRates(
        db,
        Array.from({ length: CALLS }, (_, n) => ({
          ...keyBucket(n),
          minute: 2n,
          requests: 1n,
          tokens: 1n,
        })),
        2,
      ),
  ],
  [
    'the watermarks of many epochs',
    CALLS,
    (db) =>
      recordWatermarks(
        db,
        Array.from({ length: 500 }, (_, n) => ({ ...holder(n), markAt: NOW, seenAt: NOW })),
      ),
  ],
  [
    'whether epochs are known',
    CALLS,
    (db) =>
      findKnownEpochs(
        db,
        Array.from({ length: 500 }, (_, n) => holder(n)),
      ),
  ],
  ['a registration', 1, (db) => registerProducer(db, { ...holder(0), name: 'a', now: NOW })],
  ['a new limit', 1, (db) => db.transaction().execute((tx) => setBucketLimits(tx, ['pol_7'], NOW))],
  [
    'a new counter',
    1_000,
    (db) =>
      db.transaction().execute(async (tx) => {
        await lockCounters(tx, 'exclusive');
        await sql`UPDATE policies SET counter_version = 2 WHERE id = 'pol_company'`.execute(tx);
        await carryLeases(
          tx,
          { id: 'pol_company', counter_version: 2, counter_scope: 'policy' },
          windowStartOf(COMPANY_BUCKET),
        );
      }),
  ],
  [
    'calls for leases on a replaced counter',
    CALLS,
    (db) => answerLeaseCalls(db, { ...holder(3), now: NOW, calls: leaseCalls(0, 4n) }),
  ],
  [
    'the end of an epoch',
    1_000,
    (db) => closeEpoch(db, { ...holder(18), lastN: [100n, 101n, 100n, 100n], now: NOW }),
  ],
  ['closing its leases', CALLS, (db) => closeLeases(db, 1)],
  ['deleting its leases', CALLS, (db) => pruneLeases(db, { closedBefore: FAR_AHEAD, portions: 1 })],
  [
    'the end of an epoch with many leases',
    1_000,
    (db) => closeEpoch(db, { ...holder(0), lastN: [2_100n, 101n, 100n, 100n], now: NOW }),
  ],
  ['closing a portion of its leases', CALLS, (db) => closeLeases(db, 1)],
  [
    'folding a page of ended windows',
    CALLS,
    (db) =>
      foldWindows(db, { leasesBefore: NOW, foldBefore: NOW, after: YESTERDAY, pages: 1, pageSize: CALLS }),
  ],
];

type Costs = ReadonlyMap<string, readonly ExplainedStatement[]>;

/** What each operation's statements cost in a grown ledger. */
async function costsOf(withStatistics: boolean): Promise<Costs> {
  const database = await createTestDatabase();
  const explained = createExplainedDatabase(database.url);
  try {
    await growLedger(database.db);
    if (withStatistics) await sql`VACUUM ANALYZE`.execute(database.db);
    const costs = new Map<string, ExplainedStatement[]>();
    for (const [name, , operate] of OPERATIONS) {
      await operate(explained.db);
      costs.set(name, explained.statements.splice(0));
    }
    return costs;
  } finally {
    await explained.db.destroy();
    await database.drop();
  }
}

/** These grow with the traffic or the number of callers, and no statement reads them as a whole. */
const GROWING = [
  'spend_buckets',
  'spend_by_month',
  'budget_leases',
  'policies',
  'rate_minutes',
  'appended_spend',
  'usage_attributions',
  'usage_attribution_days',
];
/**
 * For each row that a statement is for: it is sent, looked up, locked, written and returned, each in some nodes of a plan. A bucket
 * has about ten leases.
 */
const VISITS_EACH = 50;
/** Of the look-ups of one statement, as in a filter of a row that was found by its key. */
const DISCARDED_EACH = 12;

describe('a statement that writes the ledger', () => {
  let fresh: Costs;
  let analyzed: Costs;
  beforeAll(async () => {
    fresh = await costsOf(false);
    analyzed = await costsOf(true);
  }, 600_000);

  it.each(OPERATIONS)('%s reads no more than it is for, without statistics', (name, size) => {
    const statements = fresh.get(name) ?? [];
    expect(statements.length).toBeGreaterThan(0);
    for (const [at, cost] of statements.entries()) {
      const text = describeCost(cost);
      expect(cost.visited, text).toBeLessThanOrEqual(VISITS_EACH * size + 100);
      expect(cost.discarded, text).toBeLessThanOrEqual(DISCARDED_EACH * size + 100);
      expect(
        cost.scanned.filter((table) => GROWING.includes(table)),
        text,
      ).toEqual([]);
      // Statistics make it no cheaper.
      const other = analyzed.get(name)?.[at];
      expect(cost.sql).toBe(other?.sql);
      expect(cost.visited, text).toBeLessThanOrEqual(2 * (other?.visited ?? 0) + 100);
    }
    const visited = (list: readonly ExplainedStatement[] = []) =>
      list.reduce((sum, cost) => sum + cost.visited, 0);
    expect(visited(statements)).toBeLessThanOrEqual(1.5 * visited(analyzed.get(name)) + 100);
  });
});
