import { type BucketRef, bucketKey, POLICY_SUBJECT } from '@weighbridge/budget';
import { eventually, untilLockWaits } from '@weighbridge/testing';
import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { answerLeaseCalls } from '../leases/answerLeaseCalls.ts';
import { closeLeases } from '../leases/closeLeases.ts';
import { compareNewDays } from '../maintenance/compareNewDays.ts';
import { ledgerAsOf } from '../producers/ledgerAsOf.ts';
import { closeEpoch, recordWatermarks, registerProducer } from '../producers/producers.ts';
import { type LastStep, recordUsage } from '../recording/recordUsage.ts';
import { hasAppendedSpend, mergeSpend, mergeSpendWithin } from './mergeSpend.ts';

const ledger = useLedger();
const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
let nextId = 0;

const uuid = (n: number) => `019a6c00-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;

async function holder() {
  const made = { producerId: uuid(++nextId), epoch: uuid(nextId), shard: nextId % 4 };
  await registerProducer(ledger.db, { ...made, name: '', now });
  return made;
}
type Holder = Awaited<ReturnType<typeof holder>>;

/** The bucket that all events of a new policy share. */
async function shared(limit: bigint | null = 100n, thresholds: number[] = []): Promise<BucketRef> {
  const policyId = `pol_${++nextId}`;
  await insertPolicy(ledger.db, policyId, {
    counter_scope: 'policy',
    limit_nano_usd: limit,
    created_at: windowStart,
  });
  await ledger.db.updateTable('policies').set({ thresholds }).where('id', '=', policyId).execute();
  return {
    policyId,
    counterVersion: 1,
    subject: POLICY_SUBJECT,
    windowStartMs: BigInt(windowStart.getTime()),
  };
}

function call(by: Holder, bucket: BucketRef, seq: bigint, wanted: bigint) {
  const calls = [{ bucket, seq, returnedNanoUsd: 0n, wantNanoUsd: wanted, minimumNanoUsd: wanted }];
  return answerLeaseCalls(ledger.db, { ...by, calls, now });
}

/** Records an event as metering does: two holders share only the bucket. */
function spend(by: Holder, bucket: BucketRef, cost: bigint, lastStep?: LastStep) {
  const n = ++nextId;
  const { row } = ledgerEvent(n, { cost, admittedAt: now, principal: by.producerId });
  const origin = { producer_id: by.producerId, epoch: by.epoch, shard: by.shard, n: BigInt(n) };
  const usage = eventsOnly([{ row: { ...row, ...origin }, buckets: [bucket] }]);
  return recordUsage(ledger.db, usage, now, { appends: true, lastStep });
}

/** A last step that pauses until resumed. */
function pausing() {
  let [reached, resume] = [() => {}, () => {}];
  const paused = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const resumed = new Promise<void>((resolve) => {
    resume = resolve;
  });
  const pause: LastStep = async () => {
    reached();
    await resumed;
  };
  return { paused, resume: () => resume(), pause };
}

async function row(bucket: BucketRef) {
  const { rows } = await sql<{ spent: bigint; leased: bigint }>`
    SELECT spent_nano_usd AS spent, leased_nano_usd AS leased FROM spend_buckets
    WHERE bucket_key = ${bucketKey(bucket)}`.execute(ledger.db);
  return rows[0];
}

const merge = () => mergeSpend(ledger.db, now);

beforeEach(async () => {
  await sql`UPDATE merged_spend SET up_to_id = 0`.execute(ledger.db);
});

describe('batches of metering', () => {
  it('do not wait for each other, nor for a lease call, at a bucket that they share', async () => {
    const [bucket, one, other] = [await shared(), await holder(), await holder()];
    await call(one, bucket, 1n, 10n);
    // The first goes on only when the second is in the ledger, while a third writer has the bucket's row.
    const { paused, resume, pause } = pausing();
    const first = spend(one, bucket, 3n, pause);
    await paused;
    await ledger.db.transaction().execute(async (tx) => {
      await sql`SELECT FROM spend_buckets WHERE bucket_key = ${bucketKey(bucket)} FOR UPDATE`.execute(tx);
      await sql`SET LOCAL lock_timeout = '5s'`.execute(tx);
      expect(await spend(other, bucket, 4n)).toMatchObject({ newEvents: 1 });
    });
    resume();
    await first;
    expect(await merge()).toMatchObject({ rows: 2 });
    expect(await row(bucket)).toEqual({ spent: 7n, leased: 7n });
  });

  it('count what no proxy spent, and what a replaced counter has, at once', async () => {
    const [bucket, one] = [await shared(), await holder()];
    const { row: plain } = ledgerEvent(++nextId, { cost: 5n, admittedAt: now });
    await recordUsage(ledger.db, eventsOnly([{ row: plain, buckets: [bucket] }]), now, { appends: true });
    await sql`UPDATE policies SET counter_version = 2, counter_since = ${now} WHERE id = ${bucket.policyId}`.execute(
      ledger.db,
    );
    await spend(one, bucket, 6n);
    expect(await hasAppendedSpend(ledger.db)).toBe(false);
    expect(await row(bucket)).toEqual({ spent: 11n, leased: 0n });
  });
});

describe('merging', () => {
  it('adds what was spent and settles what was leased together, each once', async () => {
    const [bucket, one, other] = [await shared(), await holder(), await holder()];
    await call(one, bucket, 1n, 40n);
    await call(other, bucket, 1n, 20n);
    await spend(one, bucket, 30n);
    await spend(one, bucket, 5n);
    await spend(other, bucket, 25n);
    expect(await row(bucket)).toEqual({ spent: 0n, leased: 60n });
    await Promise.all([merge(), merge(), merge()]);
    await merge();
    expect(await row(bucket)).toEqual({ spent: 60n, leased: 5n });
    expect(await hasAppendedSpend(ledger.db)).toBe(false);
  });

  it('is done by one worker at a time, and another goes on once that has died', async () => {
    const [bucket, one] = [await shared(), await holder()];
    await spend(one, bucket, 5n);
    const died = ledger.db.transaction().execute(async (tx) => {
      await mergeSpendWithin(tx);
      expect(await merge()).toBeUndefined();
      throw new Error('the worker died');
    });
    await expect(died).rejects.toThrow('died');
    expect(await row(bucket)).toBeUndefined();
    expect(await merge()).toMatchObject({ rows: 1 });
    expect(await row(bucket)).toMatchObject({ spent: 5n });
  });

  it('records the thresholds that it reaches, once', async () => {
    const [bucket, one] = [await shared(10_000n, [50, 90]), await holder()];
    expect(await spend(one, bucket, 6_000n)).toMatchObject({ thresholds: [] });
    const merged = await merge();
    expect(merged?.thresholds).toMatchObject([{ policyId: bucket.policyId, percent: 50, spent: 6_000n }]);
    await spend(one, bucket, 1n);
    expect(await merge()).toMatchObject({ rows: 1, thresholds: [] });
  });
});

describe('until it is merged, what was spent', () => {
  it('is no headroom to a lease call, beyond leases or without any', async () => {
    const [bucket, one, other, third] = [await shared(), await holder(), await holder(), await holder()];
    await call(one, bucket, 1n, 10n);
    await spend(one, bucket, 40n);
    await spend(other, bucket, 30n);
    expect(await call(third, bucket, 1n, 31n)).toMatchObject([
      { outcome: 'exhausted', spentNanoUsd: 70n, leasedNanoUsd: 0n },
    ]);
    expect(await call(third, bucket, 2n, 30n)).toMatchObject([{ outcome: 'granted', leasedNanoUsd: 30n }]);
    await merge();
    expect(await row(bucket)).toEqual({ spent: 70n, leased: 30n });
  });

  it('keeps the leases of its epoch from being closed', async () => {
    const [bucket, one] = [await shared(), await holder()];
    await call(one, bucket, 1n, 10n);
    await spend(one, bucket, 4n);
    await closeEpoch(ledger.db, { ...one, lastN: [0n, 0n, 0n, 0n], now });
    await closeLeases(ledger.db);
    expect(await row(bucket)).toEqual({ spent: 0n, leased: 10n });
    await merge();
    await closeLeases(ledger.db);
    expect(await row(bucket)).toEqual({ spent: 4n, leased: 0n });
  });

  it('holds back the time up to which counters are known, and is no difference to the comparison', async () => {
    const [bucket, one] = [await shared(), await holder()];
    const mark = new Date(now.getTime() + 3_600_000);
    await recordWatermarks(ledger.db, [{ ...one, markAt: mark, seenAt: mark }]);
    await spend(one, bucket, 4n);
    expect(await ledgerAsOf(ledger.db)).toEqual(new Date(now.getTime() + 1_000));
    const compare = () => compareNewDays(ledger.db, { now: new Date(), recheckRuns: 30 });
    expect(await compare()).toMatchObject({ differingBuckets: 0 });
    await merge();
    expect(await ledgerAsOf(ledger.db)).toEqual(mark);
    expect(await compare()).toMatchObject({ differingBuckets: 0 });
  });
});

describe('what is merged', () => {
  const skipped = async () =>
    (await sql<{ id: bigint }>`SELECT up_to_id AS id FROM merged_spend`.execute(ledger.db)).rows[0]?.id;
  const A_MINUTE = 60_000;

  it('is skipped by readers, but never the row of a batch that is not committed yet', async () => {
    const [bucket, one, slowly] = [await shared(null), await holder(), await holder()];
    const progress = {};
    let at = now.getTime();
    const mergeLater = () => {
      at += A_MINUTE;
      return mergeSpend(ledger.db, new Date(at), progress);
    };
    await spend(one, bucket, 1n);
    const { paused, resume, pause } = pausing();
    const slow = spend(slowly, bucket, 2n, pause);
    await paused;
    for (let n = 0; n < 3; n++) {
      await spend(one, bucket, 10n);
      await mergeLater();
    }
    expect(await skipped()).toBe(0n);
    resume();
    await slow;
    let spent = 33n;
    // Other transactions in the same Postgres, such as those of other tests, have to end first.
    await eventually(async () => {
      await mergeLater();
      await spend(one, bucket, 100n);
      spent += 100n;
      await mergeLater();
      expect(await skipped()).toBeGreaterThan(0n);
    });
    expect(await row(bucket)).toMatchObject({ spent });
  });
});

it('a batch waits for no merge, and a lease call goes on once the merge is over', async () => {
  const [bucket, one] = [await shared(), await holder()];
  await spend(one, bucket, 1n);
  const { called } = await ledger.db.transaction().execute(async (tx) => {
    await mergeSpendWithin(tx);
    await spend(one, bucket, 2n);
    const waiting = call(one, bucket, 1n, 10n);
    await untilLockWaits(ledger.db);
    return { called: waiting };
  });
  expect(await called).toMatchObject([{ outcome: 'granted', spentNanoUsd: 3n }]);
  expect(await merge()).toMatchObject({ rows: 1 });
});
