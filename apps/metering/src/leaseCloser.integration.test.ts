import { newUuid } from '@weighbridge/domain';
import { answerLeaseCalls, closeEpoch, registerProducer } from '@weighbridge/ledger';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually, useDatabase } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { startLeaseCloser } from './leaseCloser.ts';
import { createMeteringMetrics } from './meteringMetrics.ts';

const database = useDatabase();
const logger = createLogger('test');
logger.level = 'silent';
const now = new Date();
const bucket = { policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: 0n };

/** An epoch with a lease of 10, which is closed without any usage. */
async function endEpoch(): Promise<void> {
  const holder = { producerId: newUuid(), epoch: newUuid() };
  await registerProducer(database.db, { ...holder, name: '', now });
  const ask = { bucket, seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 10n, minimumNanoUsd: 10n };
  await answerLeaseCalls(database.db, { ...holder, calls: [ask], now });
  await closeEpoch(database.db, { ...holder, lastN: [0n, 0n, 0n, 0n], now });
}

async function leased(): Promise<bigint | undefined> {
  const row = await database.db
    .selectFrom('spend_buckets')
    .select('leased_nano_usd')
    .where('policy_id', '=', bucket.policyId)
    .executeTakeFirst();
  return row?.leased_nano_usd;
}

it('returns what leases of closed epochs hold, whoever closed the epoch, and after a failure', async () => {
  const counter = {
    window_kind: 'none',
    timezone: 'UTC',
    counter_scope: 'policy',
    counter_since: now,
  } as const;
  await database.db
    .insertInto('policies')
    .values({
      id: 'pol_1',
      name: 'a',
      enforcement: 'enforce',
      created_at: now,
      updated_at: now,
      ...counter,
      limit_nano_usd: 100n,
    })
    .execute();
  await endEpoch();
  const metrics = createMetrics();
  const closer = startLeaseCloser({ db: database.db, metrics: createMeteringMetrics(metrics) }, logger);
  try {
    await eventually(async () => expect(await leased()).toBe(0n));
    await endEpoch();
    closer.prompt();
    await eventually(async () => expect(await leased()).toBe(0n));
    await database.db.schema.alterTable('quarantined_usage').renameTo('quarantine_away').execute();
    await endEpoch();
    await eventually(async () =>
      expect(await metrics.text()).toMatch(
        /^weighbridge_ledger_upkeep_failures_total\{task="leases of closed epochs"\} \d/m,
      ),
    );
    expect(await leased()).toBe(10n);
    await database.db.schema.alterTable('quarantine_away').renameTo('quarantined_usage').execute();
    await eventually(async () => expect(await leased()).toBe(0n));
  } finally {
    await closer.stop();
  }
});
