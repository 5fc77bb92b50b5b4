import { keySubject, POLICY_SUBJECT, valueSubject } from '@weighbridge/budget';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { readBudgetUse } from './readBudgetUse.ts';
import { readFullestCounters } from './readFullestCounters.ts';
import { readLimitUse } from './readLimitUse.ts';

const ledger = useLedger();
const yesterday = new Date('2026-11-09T00:00:00Z');
const today = new Date('2026-11-10T00:00:00Z');
const now = new Date('2026-11-10T12:00:00Z');
let n = 0;

/** Spends on a policy's counter in a window. */
async function spent(policyId: string, subject: string, windowStart: Date, cost: bigint): Promise<void> {
  const event = {
    row: ledgerEvent(++n, { cost, admittedAt: now }).row,
    buckets: [{ policyId, counterVersion: 1, subject, windowStartMs: BigInt(windowStart.getTime()) }],
  };
  await recordUsage(ledger.db, eventsOnly([event]), now);
}

it("lists how much of its limit each policy's fullest counter has used in the current window, the fullest first", async () => {
  const created_at = yesterday;
  await insertPolicy(ledger.db, 'pol_each', { limit_nano_usd: 1_000n, created_at });
  await insertPolicy(ledger.db, 'pol_pooled', {
    limit_nano_usd: 1_000n,
    counter_scope: 'policy',
    created_at,
  });
  await insertPolicy(ledger.db, 'pol_unlimited', { counter_scope: 'policy', created_at });
  await insertPolicy(ledger.db, 'pol_nothing', { limit_nano_usd: 0n, counter_scope: 'policy', created_at });
  await insertPolicy(ledger.db, 'pol_off', { limit_nano_usd: 1_000n, counter_scope: 'policy', created_at });
  await sql`UPDATE policies SET enforcement = 'off' WHERE id = 'pol_off'`.execute(ledger.db);
  expect(await readBudgetUse(ledger.db, now, 10)).toEqual([]);

  await spent('pol_each', keySubject('key_a'), today, 200n);
  await spent('pol_each', keySubject('key_b'), today, 400n);
  await spent('pol_each', keySubject('key_a'), yesterday, 999n);
  await spent('pol_pooled', POLICY_SUBJECT, today, 950n);
  for (const policy of ['pol_unlimited', 'pol_nothing', 'pol_off']) {
    await spent(policy, POLICY_SUBJECT, today, 999n);
  }
  const use = [
    { policyId: 'pol_pooled', usedRatio: 0.95 },
    { policyId: 'pol_each', usedRatio: 0.4 },
  ];
  expect(await readBudgetUse(ledger.db, now, 10)).toEqual(use);
  expect(await readBudgetUse(ledger.db, now, 1)).toEqual(use.slice(0, 1));
  const tomorrow = new Date('2026-11-11T00:00:01Z');
  expect(await readBudgetUse(ledger.db, tomorrow, 10)).toEqual([]);
});

it('lists how much the counter of each further limit has used that spent most, by limit and never by value', async () => {
  const limit = { counter_version: 1, window_kind: 'day', timezone: 'UTC', limit_nano_usd: '1000' };
  const kind = {
    ...limit,
    enforcement: 'enforce',
    others_limit_nano_usd: '1000',
    max_counters: 9,
    thresholds: [],
  };
  const limits = [
    { ...kind, id: 'lim_each' },
    { ...kind, id: 'lim_off', enforcement: 'off' },
    { ...kind, id: 'lim_unused' },
    { ...kind, id: 'lim_hours', window_kind: 'hour' },
  ];
  await insertPolicy(ledger.db, 'pol_limited', { limits, created_at: yesterday });
  for (const [name, cost] of [
    ['ann', 200n],
    ['bob', 700n],
    ['cy', 3n],
  ] as const)
    await spent('pol_limited.lim_each', valueSubject('user', name), today, cost);
  await spent('pol_limited.lim_off', POLICY_SUBJECT, today, 900n);
  await spent('pol_limited.lim_hours', POLICY_SUBJECT, now, 900n);
  await spent('pol_limited.lim_hours', POLICY_SUBJECT, today, 999n);
  const use = [
    { policyId: 'pol_limited', limitId: 'lim_hours', usedRatio: 0.9 },
    { policyId: 'pol_limited', limitId: 'lim_each', usedRatio: 0.7 },
  ];
  expect(await readLimitUse(ledger.db, now, 10)).toEqual(use);
  expect(await readLimitUse(ledger.db, now, 1)).toEqual(use.slice(0, 1));
});

it('finds the fullest of many policies, whenever it was created', async () => {
  await sql`
    INSERT INTO policies (id, name, enforcement, window_kind, timezone, limit_nano_usd, counter_scope, counter_since,
      created_at, updated_at)
    SELECT 'pol_early_' || n, 'early', 'enforce', 'day', 'UTC', 1000, 'policy', ${yesterday}, ${yesterday}, ${yesterday}
    FROM generate_series(1, 1100) AS n`.execute(ledger.db);
  const late = { limit_nano_usd: 1_000n, counter_scope: 'policy', created_at: today } as const;
  await insertPolicy(ledger.db, 'pol_late', late);
  await insertPolicy(ledger.db, 'pol_late_elsewhere', {
    ...late,
    timezone: 'Asia/Tokyo',
    window_kind: 'hour',
  });
  await spent('pol_early_7', POLICY_SUBJECT, today, 990n);
  await spent('pol_late', POLICY_SUBJECT, today, 999n);
  await spent('pol_late_elsewhere', POLICY_SUBJECT, now, 998n);
  expect(await readBudgetUse(ledger.db, now, 3)).toEqual([
    { policyId: 'pol_late', usedRatio: 0.999 },
    { policyId: 'pol_late_elsewhere', usedRatio: 0.998 },
    { policyId: 'pol_early_7', usedRatio: 0.99 },
  ]);
  expect((await readFullestCounters(ledger.db, now, 2)).map(({ policyId }) => policyId)).toEqual([
    'pol_late',
    'pol_late_elsewhere',
  ]);
});
