import { bucketKey, POLICY_SUBJECT } from '@weighbridge/budget';
import { createDb, type Database, isUnavailable } from '@weighbridge/database';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { answerLeaseCalls } from '../leases/answerLeaseCalls.ts';
import { registerProducer } from '../producers/producers.ts';
import { recordUsage } from '../recording/recordUsage.ts';

const ledger = useLedger();
/** Its connections are those of an app. */
let app: Database;
beforeAll(() => {
  app = createDb(ledger.url, { applicationName: 'app', onIdleError: () => {} });
});
afterAll(() => app.destroy());

const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
const HOLDER = {
  producerId: '019a6c00-0000-7000-8000-000000000001',
  epoch: '019a6c00-0000-7000-8000-000000000002',
};

it('a lease is granted although a writer of the ledger stopped in the middle of its transaction', async () => {
  await insertPolicy(ledger.db, 'pol_a', {
    counter_scope: 'policy',
    limit_nano_usd: 100n,
    created_at: windowStart,
  });
  await registerProducer(ledger.db, { ...HOLDER, name: '', now });
  const bucket = {
    policyId: 'pol_a',
    counterVersion: 1,
    subject: POLICY_SUBJECT,
    windowStartMs: BigInt(windowStart.getTime()),
  };
  const usage = eventsOnly([{ ...ledgerEvent(1, { cost: 30n, admittedAt: now }), buckets: [bucket] }]);

  let [onStopped, goOn] = [() => {}, () => {}];
  const stopped = new Promise<void>((resolve) => {
    onStopped = resolve;
  });
  const pause = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const recording = recordUsage(app, usage, now, {
    lastStep: async () => {
      onStopped();
      await pause;
    },
  }).catch((error: unknown) => error);
  await stopped;

  // It waits until Postgres has ended the transaction.
  const wanted = { seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 10n, minimumNanoUsd: 10n };
  const calls = [{ bucket, ...wanted }];
  expect(await answerLeaseCalls(ledger.db, { ...HOLDER, calls, now })).toMatchObject([
    { grantedNanoUsd: 10n, spentNanoUsd: 0n, outcome: 'granted' },
  ]);
  goOn();
  expect(isUnavailable(await recording)).toBe(true);

  // It is recorded once when it is tried again.
  await recordUsage(ledger.db, usage, now);
  const row = await ledger.db
    .selectFrom('spend_buckets')
    .select(['spent_nano_usd', 'leased_nano_usd'])
    .where('bucket_key', '=', bucketKey(bucket))
    .executeTakeFirst();
  expect(row).toEqual({ spent_nano_usd: 30n, leased_nano_usd: 10n });
});
