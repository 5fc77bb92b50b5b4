import {
  type BucketRef,
  bucketKey,
  keySubject,
  type LeaseResult,
  POLICY_SUBJECT,
  principalSubject,
} from '@weighbridge/budget';
import { untilLockWaits } from '@weighbridge/testing';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertKey, insertPolicy, type PolicyRow } from '../../test/policies.ts';
import { endDueOverrides } from '../budgets/endOverrides.ts';
import { setBucketLimits } from '../budgets/setBucketLimits.ts';
import { openCounter } from '../counters/openCounter.ts';
import { foldWindows } from '../maintenance/foldWindows.ts';
import {
  closeEpoch,
  markLost,
  pruneProducers,
  registerProducer,
  retireProducer,
} from '../producers/producers.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { answerLeaseCalls, type LeaseCall } from './answerLeaseCalls.ts';
import { closeLeases, closePortion } from './closeLeases.ts';
import { pruneLeases } from './pruneLeases.ts';
import { readUnattributed } from './readUnattributed.ts';

const ledger = useLedger();
const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
let nextId = 0;

const uuid = (n: number) => `019a6c00-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;

interface Holder {
  readonly producerId: string;
  readonly epoch: string;
}

async function holder(producerId = uuid(++nextId)): Promise<Holder> {
  const made = { producerId, epoch: uuid(++nextId) };
  await registerProducer(ledger.db, { ...made, name: '', now });
  return made;
}

/** The only bucket of a new policy. */
async function bucketOf(limit: bigint | null, fields: Partial<PolicyRow> = {}): Promise<BucketRef> {
  const id = `pol_${++nextId}`;
  await insertPolicy(ledger.db, id, {
    counter_scope: 'policy',
    limit_nano_usd: limit,
    created_at: windowStart,
    ...fields,
  });
  return {
    policyId: id,
    counterVersion: 1,
    subject: POLICY_SUBJECT,
    windowStartMs: BigInt(windowStart.getTime()),
  };
}

/** One call, for 10 unless given. */
async function call(
  by: Holder,
  bucket: BucketRef,
  fields: Partial<LeaseCall> & { seq: bigint },
): Promise<LeaseResult> {
  const made = { bucket, returnedNanoUsd: 0n, wantNanoUsd: 10n, minimumNanoUsd: 0n, ...fields };
  const [result] = await answerLeaseCalls(ledger.db, { ...by, calls: [made], now });
  if (!result) throw new Error('no result for the call');
  return result;
}

/** Records an attempt admitted on the bucket, of a holder if one is given. */
async function spend(bucket: BucketRef, cost: bigint, by?: Holder): Promise<void> {
  const n = BigInt(++nextId);
  const made = ledgerEvent(nextId, { cost, admittedAt: now });
  const origin = by && { producer_id: by.producerId, epoch: by.epoch, shard: 0, n };
  await recordUsage(ledger.db, eventsOnly([{ row: { ...made.row, ...origin }, buckets: [bucket] }]));
}

async function bucketRow(bucket: BucketRef) {
  return await ledger.db
    .selectFrom('spend_buckets')
    .selectAll()
    .where('bucket_key', '=', bucketKey(bucket))
    .executeTakeFirstOrThrow();
}

async function setLimit(
  bucket: BucketRef,
  limit: bigint | null,
  beforeCommit = async () => {},
): Promise<void> {
  await ledger.db.transaction().execute(async (tx) => {
    await tx
      .updateTable('policies')
      .set({ limit_nano_usd: limit })
      .where('id', '=', bucket.policyId)
      .execute();
    await setBucketLimits(tx, [bucket.policyId], now);
    await beforeCommit();
  });
}

describe('a lease call', () => {
  it('is granted what it wants, then the headroom that is left, and nothing below its minimum', async () => {
    const bucket = await bucketOf(100n);
    const [a, b, c] = [await holder(), await holder(), await holder()];
    expect(await call(a, bucket, { seq: 1n, wantNanoUsd: 70n })).toEqual({
      bucketKey: bucketKey(bucket),
      seq: 1n,
      grantedNanoUsd: 70n,
      spentNanoUsd: 0n,
      standingNanoUsd: 1n,
      leasedNanoUsd: 70n,
      limitNanoUsd: 100n,
      outcome: 'granted',
    });
    const refused = await call(b, bucket, { seq: 1n, wantNanoUsd: 50n, minimumNanoUsd: 31n });
    expect(refused).toMatchObject({ grantedNanoUsd: 0n, outcome: 'contended' });
    const cut = await call(c, bucket, { seq: 1n, wantNanoUsd: 50n, minimumNanoUsd: 30n });
    expect(cut).toMatchObject({ grantedNanoUsd: 30n, leasedNanoUsd: 100n, outcome: 'partly' });
  });

  it('may want a part of the headroom, which is that under the lock: two at once do not both see all of it', async () => {
    const bucket = await bucketOf(100n);
    const unlimited = await bucketOf(null);
    const [a, b] = [await holder(), await holder()];
    const half = (headroom: bigint | undefined) => (headroom === undefined ? 7n : headroom / 2n);
    const granted = await Promise.all(
      [a, b].map(async (by) => (await call(by, bucket, { seq: 1n, wantNanoUsd: half })).grantedNanoUsd),
    );
    expect(granted.sort()).toEqual([25n, 50n]);
    expect(await call(a, unlimited, { seq: 2n, wantNanoUsd: half })).toMatchObject({ grantedNanoUsd: 7n });
  });

  it('is exhausted only if spend leaves no headroom for its minimum, and contended if leases leave none', async () => {
    const bucket = await bucketOf(100n);
    const [a, b] = [await holder(), await holder()];
    await call(a, bucket, { seq: 1n, wantNanoUsd: 100n });
    await spend(bucket, 80n, a);
    const small = await call(b, bucket, { seq: 1n, wantNanoUsd: 20n, minimumNanoUsd: 20n });
    expect(small).toMatchObject({ spentNanoUsd: 80n, leasedNanoUsd: 20n, outcome: 'contended' });
    const large = await call(b, bucket, { seq: 2n, wantNanoUsd: 21n, minimumNanoUsd: 21n });
    expect(large.outcome).toBe('exhausted');
  });

  it('changes nothing when repeated, and counts its returns once', async () => {
    const bucket = await bucketOf(100n);
    const a = await holder();
    const first = { seq: 1n, wantNanoUsd: 60n };
    await call(a, bucket, first);
    expect(await call(a, bucket, first)).toMatchObject({ grantedNanoUsd: 60n, outcome: 'repeated' });
    const back = { seq: 2n, returnedNanoUsd: 50n, wantNanoUsd: 0n };
    await call(a, bucket, back);
    expect(await call(a, bucket, back)).toMatchObject({ grantedNanoUsd: 60n, leasedNanoUsd: 10n });
    // Repeated much later, the first call is granted nothing, and does not undo the later return.
    expect(await call(a, bucket, first)).toMatchObject({ grantedNanoUsd: 60n, leasedNanoUsd: 10n });
  });

  it('is granted no more than the limit, over any number of concurrent connections', async () => {
    const bucket = await bucketOf(100n);
    const holders = await Promise.all(Array.from({ length: 4 }, () => holder()));
    for (let round = 1n; round <= 10n; round++) {
      const answers = await Promise.all(
        holders.map((by) => call(by, bucket, { seq: round, wantNanoUsd: 40n, minimumNanoUsd: 1n })),
      );
      const held = answers.reduce((sum, { grantedNanoUsd }) => sum + grantedNanoUsd, 0n);
      expect(held).toBe(100n * round);
      expect((await bucketRow(bucket)).leased_nano_usd).toBe(100n);
      // All of it is spent, and the next round starts with another 100.
      await Promise.all(answers.map((answer, i) => settleAll(answer, holders[i])));
      await setLimit(bucket, 100n * (round + 1n));
    }
    async function settleAll({ grantedNanoUsd }: LeaseResult, by: Holder | undefined) {
      if (!by) throw new Error('no holder to settle for');
      const { settled } = await ledger.db
        .selectFrom('budget_leases')
        .select('settled_nano_usd as settled')
        .where('epoch', '=', by.epoch)
        .executeTakeFirstOrThrow();
      await spend(bucket, grantedNanoUsd - settled, by);
    }
  });

  it('answers for several buckets, each independently', async () => {
    const [tight, wide] = [await bucketOf(5n), await bucketOf(null)];
    const a = await holder();
    const wanted = { seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 10n, minimumNanoUsd: 10n };
    const answers = await answerLeaseCalls(ledger.db, {
      ...a,
      calls: [
        { bucket: wide, ...wanted },
        { bucket: tight, ...wanted },
      ],
      now,
    });
    expect(answers.map(({ outcome, limitNanoUsd }) => [outcome, limitNanoUsd])).toEqual([
      ['granted', null],
      ['exhausted', 5n],
    ]);
  });

  it('is granted nothing if its epoch is superseded, lost, closed or unknown', async () => {
    const bucket = await bucketOf(100n);
    const old = await holder();
    await call(old, bucket, { seq: 1n });
    const successor = await holder(old.producerId);
    expect(await call(old, bucket, { seq: 2n })).toMatchObject({ grantedNanoUsd: 10n, outcome: 'closed' });
    await closeEpoch(ledger.db, { ...old, lastN: [0n, 0n, 0n, 0n], now });
    expect(await call(old, bucket, { seq: 3n })).toMatchObject({ leasedNanoUsd: 10n, outcome: 'closed' });
    await closeLeases(ledger.db);
    expect(await call(old, bucket, { seq: 4n })).toMatchObject({ leasedNanoUsd: 0n, outcome: 'closed' });
    await markLost(ledger.db, { silentSince: new Date(now.getTime() + 1), now });
    expect(await call(successor, bucket, { seq: 1n })).toMatchObject({
      grantedNanoUsd: 0n,
      outcome: 'closed',
    });
    const unknown = { producerId: uuid(++nextId), epoch: uuid(++nextId) };
    expect(await call(unknown, bucket, { seq: 1n })).toMatchObject({ grantedNanoUsd: 0n, outcome: 'closed' });
  });

  it('is granted nothing of a replaced counter, or of another window than the current one', async () => {
    const bucket = await bucketOf(100n);
    const a = await holder();
    const tomorrow = { ...bucket, windowStartMs: BigInt(Date.parse('2026-11-11T00:00:00Z')) };
    expect((await call(a, tomorrow, { seq: 1n })).outcome).toBe('replaced');
    expect((await call(a, { ...bucket, counterVersion: 2 }, { seq: 1n })).outcome).toBe('replaced');
    expect((await call(a, { ...bucket, policyId: 'pol_gone' }, { seq: 1n })).outcome).toBe('replaced');
  });

  it('sees a lowered limit as soon as it is committed, and takes no earlier grant back', async () => {
    const bucket = await bucketOf(100n);
    const [a, b] = [await holder(), await holder()];
    await call(a, bucket, { seq: 1n, wantNanoUsd: 60n });
    let waiting: Promise<LeaseResult> | undefined;
    // The call arrives while the limit is being changed: it must not be granted by the earlier limit.
    await setLimit(bucket, 50n, async () => {
      waiting = call(b, bucket, { seq: 1n, wantNanoUsd: 40n, minimumNanoUsd: 1n });
      await Promise.race([waiting, untilLockWaits(ledger.db)]);
    });
    expect(await waiting).toMatchObject({ grantedNanoUsd: 0n, limitNanoUsd: 50n, outcome: 'contended' });
    expect(await bucketRow(bucket)).toMatchObject({ limit_nano_usd: 50n, leased_nano_usd: 60n });
    // Without a limit it is granted.
    await setLimit(bucket, null);
    expect(await call(b, bucket, { seq: 2n, wantNanoUsd: 40n })).toMatchObject({ grantedNanoUsd: 40n });
  });

  it('is granted by an override of its own counter until the end, and not even if it began before the end was marked', async () => {
    const bucket = await bucketOf(100n, { counter_scope: 'principal' });
    const [of, others] = ['ada', 'bob'].map((id) => ({ ...bucket, subject: principalSubject(id) }));
    if (!of || !others) throw new Error('two counters');
    const [a, b] = [await holder(), await holder()];
    const endsAt = new Date(now.getTime() + 60_000);
    await ledger.db.transaction().execute(async (tx) => {
      const row = { id: `ovr ${bucket.policyId}`, policy_id: bucket.policyId, subject: of.subject };
      const times = { created_at: now, updated_at: now, ends_at: endsAt };
      const said = { limit_nano_usd: 300n, reason: 'a launch', created_by: 'operator' };
      await tx
        .insertInto('budget_overrides')
        .values({ ...row, ...times, ...said })
        .execute();
      await setBucketLimits(tx, [bucket.policyId], now);
    });
    expect(await call(a, of, { seq: 1n, wantNanoUsd: 250n })).toMatchObject({
      grantedNanoUsd: 250n,
      limitNanoUsd: 300n,
    });
    expect(await call(a, others, { seq: 1n, wantNanoUsd: 250n })).toMatchObject({ grantedNanoUsd: 100n });
    let waiting: Promise<LeaseResult> | undefined;
    await ledger.db.transaction().execute(async (tx) => {
      const { ended } = await endDueOverrides(tx, { now: endsAt, limit: 10, policyId: bucket.policyId });
      expect(ended).toHaveLength(1);
      waiting = call(b, of, { seq: 1n, wantNanoUsd: 10n, minimumNanoUsd: 1n });
      await Promise.race([waiting, untilLockWaits(ledger.db)]);
    });
    expect(await waiting).toMatchObject({ grantedNanoUsd: 0n, limitNanoUsd: 100n, outcome: 'contended' });
    expect(await bucketRow(of)).toMatchObject({ limit_nano_usd: 100n, leased_nano_usd: 250n });
  });
});

describe('what a lease holds', () => {
  it('falls by the cost of attempts, not with time or a restart, and ends when the ledger has all events of its epoch', async () => {
    const bucket = await bucketOf(100n);
    const old = await holder();
    await call(old, bucket, { seq: 1n, wantNanoUsd: 100n });
    await spend(bucket, 30n, old);
    expect(await bucketRow(bucket)).toMatchObject({ spent_nano_usd: 30n, leased_nano_usd: 70n });

    await holder(old.producerId);
    await markLost(ledger.db, { silentSince: new Date(now.getTime() + 1), now });
    expect((await bucketRow(bucket)).leased_nano_usd).toBe(70n);
    const key = bucketKey(bucket);
    expect(await readUnattributed(ledger.db, [key, 'other'])).toEqual(
      new Map([
        [key, 70n],
        ['other', 0n],
      ]),
    );

    // A late event reduces it by its cost. When the spool declares it the last one, the rest is returned.
    await spend(bucket, 20n, old);
    expect((await readUnattributed(ledger.db, [key])).get(key)).toBe(50n);
    await closeEpoch(ledger.db, { ...old, lastN: [0n, 0n, 0n, 0n], now });
    expect(await bucketRow(bucket)).toMatchObject({ spent_nano_usd: 50n, leased_nano_usd: 50n });
    expect(await closeLeases(ledger.db)).toBe(false);
    expect(await bucketRow(bucket)).toMatchObject({ spent_nano_usd: 50n, leased_nano_usd: 0n });
    expect((await readUnattributed(ledger.db, [key])).get(key)).toBe(0n);
  });

  it('ends when the ledger has all events of its epoch, even if their loss was accepted', async () => {
    const bucket = await bucketOf(100n);
    const lost = await holder();
    await call(lost, bucket, { seq: 1n, wantNanoUsd: 100n });
    await markLost(ledger.db, { silentSince: new Date(now.getTime() + 1), now });
    await retireProducer(ledger.db, { epoch: lost.epoch, retiredBy: 'ada', now });
    const key = bucketKey(bucket);
    expect((await readUnattributed(ledger.db, [key])).get(key)).toBe(100n);
    await spend(bucket, 30n, lost);
    expect(await closeEpoch(ledger.db, { ...lost, lastN: [0n, 0n, 0n, 0n], now })).toBe(true);
    await closeLeases(ledger.db);
    expect((await readUnattributed(ledger.db, [key])).get(key)).toBe(0n);
    expect(await bucketRow(bucket)).toMatchObject({ spent_nano_usd: 30n, leased_nano_usd: 0n });
  });

  it('ends with its epoch even if granted while the epoch is being closed', async () => {
    const bucket = await bucketOf(100n);
    const a = await holder();
    // The call gets as far as writing its lease, and waits there.
    await sql`
      CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'`.execute(ledger.db);
    await sql`
      CREATE TRIGGER wait_for_test AFTER INSERT ON budget_leases FOR EACH ROW EXECUTE FUNCTION wait_for_test()`.execute(
      ledger.db,
    );
    const done = await ledger.db.transaction().execute(async (tx) => {
      await sql`SELECT pg_advisory_xact_lock(1)`.execute(tx);
      const granted = call(a, bucket, { seq: 1n });
      await untilLockWaits(ledger.db);
      const closed = closeEpoch(ledger.db, { ...a, lastN: [0n, 0n, 0n, 0n], now });
      await untilLockWaits(ledger.db, 2);
      return { granted, closed };
    });
    expect(await done.granted).toMatchObject({ grantedNanoUsd: 10n });
    expect(await done.closed).toBe(true);
    await sql`DROP FUNCTION wait_for_test CASCADE`.execute(ledger.db);
    await closeLeases(ledger.db);
    expect((await bucketRow(bucket)).leased_nano_usd).toBe(0n);
  });

  it('counts in the next counter of its subject as well, until it is spent or returned', async () => {
    await insertKey(ledger.db, 'key_lease', 'grace');
    const own = { ...(await bucketOf(100n, { counter_scope: 'key' })), subject: keySubject('key_lease') };
    const a = await holder();
    await call(a, own, { seq: 1n, wantNanoUsd: 80n });
    await ledger.db.transaction().execute(async (tx) => {
      const policy = await tx
        .updateTable('policies')
        .set({ counter_version: 2, counter_scope: 'principal', counter_since: now })
        .where('id', '=', own.policyId)
        .returningAll()
        .executeTakeFirstOrThrow();
      await openCounter(tx, policy, now);
    });
    const next = { ...own, counterVersion: 2, subject: principalSubject('grace') };
    expect((await bucketRow(next)).leased_nano_usd).toBe(80n);
    const b = await holder();
    const contended = { wantNanoUsd: 30n, minimumNanoUsd: 30n };
    expect((await call(b, next, { seq: 1n, ...contended })).outcome).toBe('contended');
    const back = await call(a, own, { seq: 2n, returnedNanoUsd: 20n });
    expect(back).toMatchObject({ grantedNanoUsd: 80n, leasedNanoUsd: 60n, outcome: 'replaced' });
    expect((await bucketRow(next)).leased_nano_usd).toBe(60n);
    expect((await call(b, next, { seq: 2n, ...contended })).outcome).toBe('granted');
  });

  it('is returned in portions, and those of one closed epoch never wait for those of another worker', async () => {
    const buckets = await Promise.all(Array.from({ length: 5 }, () => bucketOf(9n)));
    const [a, b] = [await holder(), await holder()];
    for (const by of [a, b]) {
      for (const bucket of buckets) await call(by, bucket, { seq: 1n, wantNanoUsd: 4n });
      await closeEpoch(ledger.db, { ...by, lastN: [0n, 0n, 0n, 0n], now });
    }
    const held = async () => (await Promise.all(buckets.map(bucketRow))).map((row) => row.leased_nano_usd);
    expect(await closePortion(ledger.db, a, 3)).toHaveLength(3);
    expect((await held()).sort()).toEqual([4n, 4n, 4n, 8n, 8n]);
    await ledger.db.transaction().execute(async (tx) => {
      await sql`SELECT pg_advisory_xact_lock(hashtextextended(${`leases of ${a.epoch}`}, 0))`.execute(tx);
      expect(await closePortion(ledger.db, a, 3)).toBeUndefined();
      expect(await closePortion(ledger.db, b, 9)).toHaveLength(5);
    });
    expect(await closeLeases(ledger.db)).toBe(false);
    expect(await held()).toEqual([0n, 0n, 0n, 0n, 0n]);
    const { rows } = await sql`SELECT DISTINCT leases FROM producers`.execute(ledger.db);
    expect(rows).toEqual([{ leases: 'closed' }]);
  });

  it('is deleted after its window or its epoch, but never while it holds something', async () => {
    const [returned, held, unending] = [
      await bucketOf(9n),
      await bucketOf(9n),
      await bucketOf(9n, { window_kind: 'none' }),
    ];
    const always = { ...unending, windowStartMs: 0n };
    const [a, b] = [await holder(), await holder()];
    for (const bucket of [returned, held, always]) await call(a, bucket, { seq: 1n, wantNanoUsd: 9n });
    for (const bucket of [returned, always])
      await call(a, bucket, { seq: 2n, returnedNanoUsd: 9n, wantNanoUsd: 0n });
    // Beside the one that holds all of the limit.
    await call(b, held, { seq: 1n });
    const left = async (endedBefore: Date) => {
      await foldWindows(ledger.db, { leasesBefore: endedBefore, foldBefore: endedBefore });
      await pruneLeases(ledger.db, { closedBefore: endedBefore });
      await pruneProducers(ledger.db, { endedBefore });
      const rows = await ledger.db.selectFrom('budget_leases').select('bucket_key').execute();
      return rows.map((row) => row.bucket_key).sort();
    };
    const later = new Date(Date.now() + 1_000_000);
    expect(await left(windowStart)).toHaveLength(4);
    expect(await left(later)).toEqual([held, always].map(bucketKey).sort());
    for (const by of [a, b]) await closeEpoch(ledger.db, { ...by, lastN: [0n, 0n, 0n, 0n], now });
    expect(await left(later)).toHaveLength(2);
    await closeLeases(ledger.db);
    expect(await left(windowStart)).toHaveLength(2);
    expect(await left(later)).toEqual([]);
    expect(await ledger.db.selectFrom('producers').selectAll().execute()).toEqual([]);
  });

  it('can neither decrease its amounts nor exceed a limit, whatever the code does', async () => {
    const bucket = await bucketOf(100n);
    await call(await holder(), bucket, { seq: 1n, wantNanoUsd: 50n });
    const shrink = (to: object) => ledger.db.updateTable('budget_leases').set(to).execute();
    await expect(shrink({ granted_nano_usd: 49n })).rejects.toThrow('only grows');
    await expect(shrink({ returned_nano_usd: 51n })).rejects.toThrow('budget_leases_check');
    await expect(shrink({ seq: 0n })).rejects.toThrow('only grows');
    const lease = (leased: bigint) =>
      ledger.db.updateTable('spend_buckets').set({ leased_nano_usd: leased }).execute();
    await expect(lease(101n)).rejects.toThrow('exceed the limit');
    await expect(lease(-1n)).rejects.toThrow('spend_buckets_leased_nano_usd_check');
  });
});
