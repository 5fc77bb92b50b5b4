import { type BucketRef, bucketKey, furtherLimitId, POLICY_SUBJECT, valueSubject } from '@weighbridge/budget';
import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger, uuidAt } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { recordCorrection } from '../requests/corrections.ts';
import { setBucketLimits, setCounterLimits } from './setBucketLimits.ts';
import { recordOverdueThresholds } from './thresholds.ts';

const ledger = useLedger();
const now = new Date('2026-11-10T12:00:00Z');
const windowStart = new Date('2026-11-10T00:00:00Z');
let nextId = 0;

async function pooled(limit: bigint | null, enforcement = 'enforce'): Promise<BucketRef> {
  const id = `pol_t${++nextId}`;
  await insertPolicy(ledger.db, id, {
    counter_scope: 'policy',
    limit_nano_usd: limit,
    created_at: windowStart,
  });
  await sql`UPDATE policies SET thresholds = '{50,80,100}', enforcement = ${enforcement} WHERE id = ${id}`.execute(
    ledger.db,
  );
  return {
    policyId: id,
    counterVersion: 1,
    subject: POLICY_SUBJECT,
    windowStartMs: BigInt(windowStart.getTime()),
  };
}

/** Records attempts in one transaction, and returns the percentages reached. */
async function spend(bucket: BucketRef, ...costs: readonly bigint[]): Promise<number[]> {
  const events = costs.map((cost) => ({
    row: ledgerEvent(++nextId, { cost, admittedAt: now }).row,
    buckets: [bucket],
  }));
  const { thresholds } = await recordUsage(ledger.db, eventsOnly(events), now);
  return thresholds.map(({ percent }) => percent);
}

async function audited({ policyId }: BucketRef): Promise<unknown[]> {
  const { rows } = await sql<{ detail: unknown }>`
    SELECT detail FROM audit_log WHERE action = 'policy.threshold_reached' AND resource_id = ${policyId}
    ORDER BY (detail ->> 'percent')::int`.execute(ledger.db);
  return rows.map(({ detail }) => detail);
}

it('each threshold is recorded once per window, when its counter reaches it, with the amounts of the API', async () => {
  const bucket = await pooled(10_000_000n);
  expect(await spend(bucket, 4_999_999n)).toEqual([]);
  expect(await spend(bucket, 1n)).toEqual([50]);
  expect(await spend(bucket, 1n)).toEqual([]);
  expect(await spend(bucket, 3_000_500n, 2_000_000n)).toEqual([80, 100]);
  const next = { ...bucket, windowStartMs: BigInt(Date.parse('2026-11-11T00:00:00Z')) };
  expect(await spend(next, 5_000_000n)).toEqual([50]);
  const about = { subject: 'policy', limit_micro_usd: 10_000 };
  const first = { ...about, window_start: '2026-11-10T00:00:00.000Z' };
  expect(await audited(bucket)).toEqual(
    expect.arrayContaining([
      { ...first, percent: 50, spent_micro_usd: 5_000 },
      { ...first, percent: 80, spent_micro_usd: 10_001 },
      { ...first, percent: 100, spent_micro_usd: 10_001 },
      { ...about, window_start: '2026-11-11T00:00:00.000Z', percent: 50, spent_micro_usd: 5_000 },
    ]),
  );
  expect(await audited(bucket)).toHaveLength(4);
});

it('no threshold is recorded for a policy without a limit, or one that is off', async () => {
  expect(await spend(await pooled(null), 10n)).toEqual([]);
  expect(await spend(await pooled(10n, 'off'), 10n)).toEqual([]);
  expect(await spend(await pooled(10n, 'shadow'), 10n)).toEqual([50, 80, 100]);
});

it('a threshold reached by a correction or a lowered limit is recorded too, once, in the current window only', async () => {
  const overdue = async ({ policyId }: BucketRef, at = now) =>
    (await recordOverdueThresholds(ledger.db, at)).flatMap((one) =>
      one.policyId === policyId ? one.percent : [],
    );
  const bucket = await pooled(1_000n);
  expect(await spend(bucket, 510n)).toEqual([50]);
  expect(await overdue(bucket)).toEqual([]);
  const { request_id: requestId } = await ledger.db
    .selectFrom('usage_events')
    .select('request_id')
    .where(sql<boolean>`${bucketKey(bucket)} = ANY (bucket_keys)`)
    .executeTakeFirstOrThrow();
  const correction = { correctionId: uuidAt(now), requestId, amountNanoUsd: 300n, reason: 'x', now };
  await ledger.db.transaction().execute((tx) => recordCorrection(tx, correction));
  expect(await overdue(bucket)).toEqual([80]);
  expect(await overdue(bucket)).toEqual([]);
  await ledger.db
    .updateTable('policies')
    .set({ limit_nano_usd: 100n })
    .where('id', '=', bucket.policyId)
    .execute();
  expect(await overdue(bucket, new Date('2026-11-12T12:00:00Z'))).toEqual([]);
  expect(await overdue(bucket)).toEqual([100]);
  expect(await spend(bucket, 1n)).toEqual([]);
  expect(await audited(bucket)).toHaveLength(3);
});

it("a threshold of a further limit's counter is recorded once too, by usage, a correction, a lowered limit and an override", async () => {
  const LIMIT = { id: 'lim_1', name: 'each user', counter_version: 1, window_kind: 'day', timezone: 'UTC' };
  const MORE = {
    enforcement: 'enforce',
    thresholds: [50, 100],
    max_counters: 10,
    others_limit_nano_usd: '1000',
  };
  const id = `pol_t${++nextId}`;
  const limitsOf = (limit_nano_usd: string) => [{ ...LIMIT, ...MORE, limit_nano_usd }];
  await insertPolicy(ledger.db, id, { limits: limitsOf('1000'), created_at: windowStart });
  const policyId = furtherLimitId(id, LIMIT.id);
  const windowStartMs = BigInt(windowStart.getTime());
  const of = (name: string): BucketRef => ({
    ...{ policyId, counterVersion: 1, windowStartMs },
    subject: valueSubject('user', name),
  });
  const overdue = async () =>
    (await recordOverdueThresholds(ledger.db, now)).map(({ limitId, subject, percent }) => [
      limitId,
      subject,
      percent,
    ]);
  const change = (work: (tx: Tx) => Promise<unknown>) => ledger.db.transaction().execute(work);
  expect(await spend(of('ann'), 600n)).toEqual([50]);
  expect(await spend(of('bob'), 400n)).toEqual([]);
  expect(await spend(of('cy'), 10n)).toEqual([]);
  expect(await overdue()).toEqual([]);
  const { request_id: requestId } = await ledger.db
    .selectFrom('usage_events')
    .select('request_id')
    .where(sql<boolean>`${bucketKey(of('bob'))} = ANY (bucket_keys)`)
    .executeTakeFirstOrThrow();
  await change((tx) =>
    recordCorrection(tx, { correctionId: uuidAt(now), requestId, amountNanoUsd: 200n, reason: 'x', now }),
  );
  expect(await overdue()).toEqual([['lim_1', 'user:bob', 50]]);
  expect(await overdue()).toEqual([]);
  await change(async (tx) => {
    const limits = JSON.stringify(limitsOf('600'));
    await tx.updateTable('policies').set({ limits }).where('id', '=', id).execute();
    await setBucketLimits(tx, [policyId], now);
  });
  expect((await overdue()).sort()).toEqual([
    ['lim_1', 'user:ann', 100],
    ['lim_1', 'user:bob', 100],
  ]);
  await change(async (tx) => {
    const row = {
      id: `ovr_${++nextId}`,
      policy_id: policyId,
      subject: of('cy').subject,
      limit_nano_usd: 20n,
    };
    const said = { reason: 'x', created_by: 'operator', created_at: now, updated_at: now };
    const ends_at = new Date(now.getTime() + 60_000);
    await tx
      .insertInto('budget_overrides')
      .values({ ...row, ...said, ends_at })
      .execute();
    await setCounterLimits(tx, [{ policyId, subject: of('cy').subject }], now);
  });
  expect(await overdue()).toEqual([['lim_1', 'user:cy', 50]]);
  expect(await spend(of('cy'), 10n)).toEqual([100]);
  expect(await overdue()).toEqual([]);
});
