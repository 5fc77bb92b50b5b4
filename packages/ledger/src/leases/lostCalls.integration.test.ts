import { type BucketRef, bucketKey, POLICY_SUBJECT } from '@weighbridge/budget';
import { createDb, isUnavailable } from '@weighbridge/database';
import { expect, it } from 'vitest';
import { type Fault, type FaultyConnection, openFaultyConnection } from '../../test/faultyConnection.ts';
import { useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { registerProducer } from '../producers/producers.ts';
import { answerLeaseCalls } from './answerLeaseCalls.ts';

const ledger = useLedger();
const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
const uuid = (n: number) => `019a6c00-0000-7000-8000-${n.toString(16).padStart(12, '0')}`;
let nextId = 0;

/** A counter without a row yet, so that a call takes its longest way, and two proxies. */
async function counter() {
  const policyId = `pol_${++nextId}`;
  await insertPolicy(ledger.db, policyId, {
    counter_scope: 'policy',
    limit_nano_usd: 100n,
    created_at: windowStart,
  });
  const bucket: BucketRef = {
    policyId,
    counterVersion: 1,
    subject: POLICY_SUBJECT,
    windowStartMs: BigInt(windowStart.getTime()),
  };
  const [one, other] = [holder(), holder()];
  for (const made of [one, other]) await registerProducer(ledger.db, { ...made, name: '', now });
  return { bucket, one, other };
}

const holder = () => ({ producerId: uuid(++nextId), epoch: uuid(++nextId) });

const calling = (bucket: BucketRef, by: ReturnType<typeof holder>, wanted: bigint) => ({
  ...by,
  calls: [{ bucket, seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: wanted, minimumNanoUsd: wanted }],
  now,
});

/** Makes a lease call on a new connection. Returns its result, or the error that it failed with. */
async function callBy(connection: FaultyConnection, ...args: Parameters<typeof calling>): Promise<unknown> {
  const db = createDb(connection.url, { applicationName: 'test', maxConnections: 1, onIdleError: () => {} });
  try {
    await db.selectFrom('policies').select('id').limit(1).execute();
    connection.arm();
    return await answerLeaseCalls(db, calling(...args)).catch((error: unknown) => error);
  } finally {
    await db.destroy();
    await connection.close();
  }
}

/** The statements of a call, in order. */
async function statements(): Promise<readonly string[]> {
  const { bucket, one } = await counter();
  const connection = await openFaultyConnection(ledger.url);
  expect(await callBy(connection, bucket, one, 40n)).toMatchObject([{ outcome: 'granted' }]);
  return connection.statements;
}

/** A call that is lost is made again; then no lock of it is left, and each grant counts once. */
async function expectGrantedOnce(fault: Fault): Promise<void> {
  const { bucket, one, other } = await counter();
  const connection = await openFaultyConnection(ledger.url, fault);
  const lost = await callBy(connection, bucket, one, 40n);
  expect([fault, isUnavailable(lost), String(lost)]).toEqual([fault, true, String(lost)]);
  const again = await answerLeaseCalls(ledger.db, calling(bucket, one, 40n));
  expect([fault, again]).toMatchObject([fault, [{ grantedNanoUsd: 40n, leasedNanoUsd: 40n }]]);
  const rest = await answerLeaseCalls(ledger.db, calling(bucket, other, 60n));
  expect([fault, rest]).toMatchObject([fault, [{ grantedNanoUsd: 60n, outcome: 'granted' }]]);
  const { leased_nano_usd: leased } = await ledger.db
    .selectFrom('spend_buckets')
    .select('leased_nano_usd')
    .where('bucket_key', '=', bucketKey(bucket))
    .executeTakeFirstOrThrow();
  expect([fault, leased]).toEqual([fault, 100n]);
}

it('a lease call that loses its connection, before or after any statement, is granted once when it is made again', async () => {
  const all = await statements();
  expect(all.length).toBeGreaterThan(8);
  for (const at of all.keys()) {
    await expectGrantedOnce({ kind: 'cut before', statement: at });
    await expectGrantedOnce({ kind: 'cut after', statement: at });
  }
});

it('a lease call that stops for good, before any statement after its first lock, keeps no other from its lease', async () => {
  const all = await statements();
  const locked = all.findLastIndex((text) => text.includes('pg_advisory_xact_lock'));
  const paused = [...all.keys()].slice(locked + 1);
  // It reads, writes and commits.
  expect(paused.length).toBe(3);
  // Each waits until Postgres ends its transaction.
  await Promise.all(paused.map((at) => expectGrantedOnce({ kind: 'stop before', statement: at })));
});
