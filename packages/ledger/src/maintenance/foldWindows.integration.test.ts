import { type BucketRef, bucketKey, POLICY_SUBJECT } from '@weighbridge/budget';
import { createDb, type Database } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { beforeEach, expect, it } from 'vitest';
import { eventId, ledgerEvent } from '../../test/events.ts';
import { openFaultyConnection } from '../../test/faultyConnection.ts';
import { counterMonth, expectCounted, readCounterSums } from '../../test/folding/counterSums.ts';
import { eventsOnly, openMonth, useLedger } from '../../test/ledger.ts';
import { insertPolicy, type PolicyRow } from '../../test/policies.ts';
import { answerLeaseCalls } from '../leases/answerLeaseCalls.ts';
import { registerProducer } from '../producers/producers.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { recordCorrection } from '../requests/corrections.ts';
import { foldWindows } from './foldWindows.ts';
import { maintainPartitions } from './partitions.ts';
import { rebuildBuckets } from './rebuild.ts';

const ledger = useLedger();
const NOW = new Date('2026-11-10T12:00:00Z');
const CLEAN = { differingBuckets: 0, differenceNanoUsd: 0n };
const day = (n: number, hour = 8) => new Date(Date.UTC(2026, 10, n, hour));
let next = 0;

beforeEach(async () => {
  await sql`TRUNCATE policies CASCADE`.execute(ledger.db);
});

async function policy(kind: WindowKind, fields: Partial<PolicyRow> = {}): Promise<PolicyRow> {
  return await insertPolicy(ledger.db, `pol_${kind}_${++next}`, {
    ...{ window_kind: kind, counter_scope: 'policy', created_at: new Date('2026-10-01T00:00:00Z') },
    ...fields,
  });
}

const bucketOf = (of: PolicyRow, at: Date): BucketRef => ({
  policyId: of.id,
  counterVersion: of.counter_version,
  subject: POLICY_SUBJECT,
  windowStartMs: BigInt(windowAt(of.window_kind as WindowKind, of.timezone, at).start.getTime()),
});

/** Records attempts of these policies, of 1 nano-USD each unless given. */
async function spend(of: readonly PolicyRow[], at: Date, cost = 1n, n = ++next): Promise<string> {
  const { row } = ledgerEvent(n, { cost, admittedAt: at });
  await recordUsage(
    ledger.db,
    eventsOnly([{ row, buckets: of.map((one) => bucketOf(one, at)), workloadType: undefined }]),
    at,
  );
  return row.request_id;
}

/** Folds the windows that ended before a time, to the end. */
async function foldAll(endedBefore: Date, db: Database = ledger.db): Promise<void> {
  const options = {
    leasesBefore: endedBefore,
    foldBefore: endedBefore,
    pages: 1,
    pageSize: 2,
    leasesPerPage: 2,
  };
  for (let after: string | undefined = ''; after !== undefined; )
    after = await foldWindows(db, { ...options, after });
}

const starts = async () =>
  (await ledger.db.selectFrom('spend_buckets').select(['window_start', 'subject']).execute())
    .filter(({ subject }) => subject === POLICY_SUBJECT)
    .map(({ window_start }) => window_start.toISOString().slice(0, 13))
    .sort();
const months = async () =>
  await ledger.db
    .selectFrom('spend_by_month')
    .selectAll()
    .where('subject', '=', POLICY_SUBJECT)
    .orderBy('policy_id')
    .orderBy('month')
    .execute();

it('ended windows become one row a counter and month; current ones and those without an end stay as they are', async () => {
  const [hours, days, always] = [await policy('hour'), await policy('day'), await policy('none')];
  await openMonth(ledger.db, new Date('2026-10-15T00:00:00Z'));
  for (const at of [new Date('2026-10-31T22:00:00Z'), day(3), day(3, 9), day(4), day(9), NOW])
    await spend([hours, days, always], at, 5n);
  await sql`UPDATE spend_buckets SET opening_nano_usd = 2, spent_nano_usd = spent_nano_usd + 2
    WHERE window_start IN ('2026-11-03T00:00:00Z', '2026-11-09T00:00:00Z') AND subject = 'policy'`.execute(
    ledger.db,
  );
  const before = await expectCounted(ledger.db, 'before');
  await foldAll(day(7, 0));
  expect((await expectCounted(ledger.db, 'after')).spent).toEqual(before.spent);
  expect(await starts()).toEqual([
    '1970-01-01T00',
    '2026-11-09T00',
    '2026-11-09T08',
    '2026-11-10T00',
    '2026-11-10T12',
  ]);
  expect(await months()).toMatchObject([
    { policy_id: days.id, month: new Date('2026-10-01T00:00:00Z'), spent_nano_usd: 5n, opening_nano_usd: 0n },
    {
      policy_id: days.id,
      month: new Date('2026-11-01T00:00:00Z'),
      spent_nano_usd: 17n,
      opening_nano_usd: 2n,
      folded_to: day(4, 0),
    },
    { policy_id: hours.id, spent_nano_usd: 5n },
    { policy_id: hours.id, spent_nano_usd: 15n, folded_to: day(4) },
  ]);
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject(CLEAN);
  // Later windows of the month join the row.
  await foldAll(day(12, 0));
  expect(await months()).toMatchObject([
    {},
    { spent_nano_usd: 29n, opening_nano_usd: 4n, folded_to: day(10, 0) },
    {},
    { spent_nano_usd: 25n },
  ]);
  expect((await readCounterSums(ledger.db)).spent).toEqual(before.spent);
});

it('a window ends by the calendar of its policy, and that of a replaced counter after the longest there is', async () => {
  const [berlin, replaced] = [await policy('day', { timezone: 'Europe/Berlin' }), await policy('day')];
  await spend([berlin, replaced], day(4));
  await ledger.db.updateTable('policies').set({ counter_version: 2 }).where('id', '=', replaced.id).execute();
  await foldAll(new Date('2026-11-04T23:00:00Z'));
  expect(await starts()).toEqual(['2026-11-03T23', '2026-11-04T00']);
  await foldAll(new Date('2026-11-04T23:00:00.001Z'));
  expect(await starts()).toEqual(['2026-11-04T00']);
  await foldAll(new Date('2026-12-06T00:00:00Z'));
  expect(await starts()).toEqual(['2026-11-04T00']);
  await foldAll(new Date('2026-12-06T00:00:00.001Z'));
  expect(await starts()).toEqual([]);
});

it('a window with a lease that holds something is not folded, nor one whose row another writer has; nobody waits', async () => {
  const of = await policy('day', { limit_nano_usd: 100n });
  const [holder, bucket] = [{ producerId: eventId(1), epoch: eventId(2) }, bucketOf(of, day(4))];
  await registerProducer(ledger.db, { ...holder, name: '', now: day(4) });
  const ask = { bucket, seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 9n, minimumNanoUsd: 1n };
  await answerLeaseCalls(ledger.db, { ...holder, calls: [ask], now: day(4) });
  const leases = async () =>
    (await ledger.db.selectFrom('budget_leases').select('bucket_key').execute()).length;
  await foldAll(NOW);
  expect([await starts(), await leases()]).toEqual([['2026-11-04T00'], 1]);
  const back = { ...ask, seq: 2n, returnedNanoUsd: 9n, wantNanoUsd: 0n, minimumNanoUsd: 0n };
  await answerLeaseCalls(ledger.db, { ...holder, calls: [back], now: day(4) });
  await ledger.db.transaction().execute(async (tx) => {
    await sql`SELECT FROM spend_buckets WHERE bucket_key = ${bucketKey(bucket)} FOR NO KEY UPDATE`.execute(
      tx,
    );
    await foldAll(NOW);
    expect([await starts(), await leases()]).toEqual([['2026-11-04T00'], 1]);
  });
  await foldAll(NOW);
  expect([await starts(), await leases()]).toEqual([[], 0]);
  const late = await answerLeaseCalls(ledger.db, { ...holder, calls: [{ ...back, seq: 3n }], now: NOW });
  expect(late).toMatchObject([{ outcome: 'replaced', leasedNanoUsd: 0n }]);
  expect([await starts(), await leases()]).toEqual([[], 0]);
});

it('a lease that holds in the next counter as well keeps the window of both', async () => {
  const of = await policy('day');
  await spend([of], day(4), 7n);
  const [first, also] = [
    bucketKey(bucketOf(of, day(4))),
    bucketKey({ ...bucketOf(of, day(4)), counterVersion: 2 }),
  ];
  await sql`INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    VALUES (${also}, ${of.id}, 2, 'policy', ${day(4, 0)}, 0)`.execute(ledger.db);
  const holder = { producerId: eventId(1), epoch: eventId(2) };
  await registerProducer(ledger.db, { ...holder, name: '', now: day(4) });
  const held = { granted_nano_usd: 5n, returned_nano_usd: 0n, seq: 1n, also_bucket_key: also };
  await ledger.db
    .insertInto('budget_leases')
    .values({ bucket_key: first, producer_id: holder.producerId, epoch: holder.epoch, ...held })
    .execute();
  await foldAll(new Date('2027-01-01T00:00:00Z'));
  expect(await starts()).toEqual(['2026-11-04T00', '2026-11-04T00']);
});

it('what comes late to a folded window is counted once: usage delivered twice, and a correction', async () => {
  const of = await policy('day', { limit_nano_usd: 100n });
  await ledger.db
    .updateTable('policies')
    .set({ thresholds: [1, 50] })
    .execute();
  const request = await spend([of], day(4), 40n);
  await foldAll(NOW);
  for (const repeated of [7_001, 7_001]) await spend([of], day(4, 10), 60n, repeated);
  await ledger.db.transaction().execute((tx) =>
    recordCorrection(tx, {
      correctionId: eventId(++next),
      requestId: request,
      amountNanoUsd: -10n,
      reason: 'x',
      now: NOW,
    }),
  );
  const expected = [[counterMonth(bucketKey(bucketOf(of, day(4)))), 90n]];
  const spentBy = async () =>
    [...(await expectCounted(ledger.db, 'late')).spent].filter(([key]) => key.endsWith('/policy'));
  expect(await spentBy()).toEqual(expected);
  expect(await rebuildBuckets(ledger.db, { apply: true })).toMatchObject(CLEAN);
  await foldAll(NOW);
  expect(await starts()).toEqual([]);
  expect(await spentBy()).toEqual(expected);
  expect(await months()).toMatchObject([{ spent_nano_usd: 90n }]);
  // The first usage reached 1 %. What came late is not what its window spent, so it can't reach 50 %.
  const { rows } = await sql`SELECT percent FROM budget_thresholds_reached`.execute(ledger.db);
  expect(rows).toEqual([{ percent: 1 }]);
});

it('a crash at any statement folds all of a page or nothing of it, whether the commit is known or not', async () => {
  const of = await policy('day');
  const faults = [undefined, 'cut before', 'cut after'] as const;
  let statements = 0;
  for (const kind of faults) {
    for (let statement = 0; kind === undefined ? statement < 1 : statement < statements; statement++) {
      for (const at of [day(3), day(4)]) await spend([of], at, 3n);
      const before = (await expectCounted(ledger.db, 'before')).spent;
      const connection = await openFaultyConnection(ledger.url, kind && { kind, statement });
      const db = createDb(connection.url, {
        applicationName: 'test',
        maxConnections: 1,
        onIdleError: () => {},
      });
      await sql`SELECT 1`.execute(db);
      connection.arm();
      const options = { leasesBefore: NOW, foldBefore: NOW };
      const failed = await foldWindows(db, options).then(
        () => undefined,
        (error: unknown) => error,
      );
      statements = Math.max(statements, connection.statements.length);
      await db.destroy();
      await connection.close();
      expect(failed === undefined).toBe(kind === undefined);
      expect((await expectCounted(ledger.db, `${kind} ${statement}`)).spent).toEqual(before);
      // Postgres may learn late that the connection is gone, and keeps its locks until then.
      await eventually(async () => {
        await foldWindows(ledger.db, options);
        expect(await starts()).toEqual([]);
      });
      expect((await expectCounted(ledger.db, 'again')).spent).toEqual(before);
    }
  }
  expect(statements).toBeGreaterThan(5);
});

it('a rebuild corrects a folded month by its row, and takes away what an earlier release inserted beside it', async () => {
  const of = await policy('day');
  for (const at of [day(3), day(4)]) await spend([of], at, 30n);
  await foldAll(NOW);
  const key = counterMonth(bucketKey(bucketOf(of, day(4))));
  await sql`UPDATE spend_by_month SET spent_nano_usd = spent_nano_usd + 9 WHERE subject = 'policy'`.execute(
    ledger.db,
  );
  const found = { differing: [{ bucketKey: key, differenceNanoUsd: -9n }], differingBuckets: 1 };
  expect(await rebuildBuckets(ledger.db, { apply: true })).toMatchObject(found);
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject(CLEAN);
  // Release 0.1.0 takes folded windows for missing, and its rebuild inserts them whole.
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT key, part[1], part[2]::integer, part[4], to_timestamp(part[3]::bigint / 1000.0), sum(cost_nano_usd)
    FROM usage_events, unnest(bucket_keys) AS key, regexp_match(key, '^([^/]*)/(\\d+)/(-?\\d+)/(.*)$') AS part
    GROUP BY key, part`.execute(ledger.db);
  await foldAll(day(4, 12));
  const doubled = { differing: [{ bucketKey: key, differenceNanoUsd: -60n }, {}], differingBuckets: 2 };
  expect(await rebuildBuckets(ledger.db, { apply: true })).toMatchObject(doubled);
  await foldAll(NOW);
  expect([...(await expectCounted(ledger.db, 'corrected')).spent.values()]).toEqual([60n, 60n]);
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject(CLEAN);
});

it('a dropped month of the ledger becomes the opening balance of folded windows too', async () => {
  const of = await policy('day');
  const [january, february] = [new Date('2026-01-31T22:00:00Z'), new Date('2026-02-01T08:00:00Z')];
  await openMonth(ledger.db, january);
  for (const at of [january, february]) await spend([of], at, 30n);
  // Its proxy's clock was behind: its window is of February, its time of January.
  const { row } = ledgerEvent(++next, { cost: 4n, admittedAt: january });
  const behind = { row, buckets: [bucketOf(of, february)], workloadType: undefined };
  await recordUsage(ledger.db, eventsOnly([behind]), february);
  await foldAll(new Date('2026-02-05T00:00:00Z'));
  const before = (await readCounterSums(ledger.db)).spent;
  const now = new Date('2026-04-15T00:00:00Z');
  expect(await maintainPartitions(ledger.db, { now, retentionDays: 60 })).toEqual(['usage_events_2026_01']);
  expect((await expectCounted(ledger.db, 'dropped')).spent).toEqual(before);
  expect(await rebuildBuckets(ledger.db, { apply: true })).toMatchObject(CLEAN);
  expect((await months()).map((one) => one.opening_nano_usd)).toEqual([30n, 4n]);
});
