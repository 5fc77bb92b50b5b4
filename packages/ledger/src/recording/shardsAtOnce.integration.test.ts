import {
  type BucketRef,
  furtherLimitId,
  keySubject,
  OTHERS_SUBJECT,
  POLICY_SUBJECT,
  principalSubject,
  UNKNOWN_SUBJECT,
} from '@weighbridge/budget';
import { USAGE_SHARDS, usageShard } from '@weighbridge/contracts';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { rangesOnly, useLedger, uuidAt } from '../../test/ledger.ts';
import type { LedgerEvent, UsageToRecord } from '../events/usage.ts';
import { mergeSpend } from '../merging/mergeSpend.ts';
import { recordInTransaction, recordUsage } from './recordUsage.ts';

const ledger = useLedger();

const PRODUCER = '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a01';
const PRINCIPALS = 24;
const KEYS_PER_PRINCIPAL = 3;

const LIMIT = furtherLimitId('pol_company', 'lim_each');

const counter = (policyId: string, subject: string): BucketRef => ({
  policyId,
  counterVersion: 1,
  subject,
  windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
});

/** Usage of all keys of a company, by shard: one event each, below a policy of the key, its principal, and the company. */
function usageByShard(epoch: string): readonly UsageToRecord[] {
  const byShard: LedgerEvent[][] = Array.from({ length: USAGE_SHARDS }, () => []);
  for (let at = 0; at < PRINCIPALS * KEYS_PER_PRINCIPAL; at++) {
    const principal = `principal-${at % PRINCIPALS}`;
    const key = `key_${at}`;
    const { row, ...event } = ledgerEvent(at, { cost: 1n, principal, key, attribution: { user: principal } });
    const shard = usageShard(principal);
    byShard[shard]?.push({
      ...event,
      row: { ...row, producer_id: PRODUCER, epoch, shard },
      buckets: [
        counter('pol_key', keySubject(key)),
        counter('pol_team', principalSubject(principal)),
        counter('pol_company', POLICY_SUBJECT),
        counter(LIMIT, at % 2 === 0 ? OTHERS_SUBJECT : UNKNOWN_SUBJECT),
      ],
    });
  }
  return byShard.map((events, shard) => ({
    events,
    refused: [],
    received: [{ producerId: PRODUCER, epoch, shard, firstN: 2n, count: events.length }],
  }));
}

it("records a company's usage of all shards while none of it is committed", async () => {
  const epoch = uuidAt(new Date(Date.now() - 60_000));
  for (let shard = 0; shard < USAGE_SHARDS; shard++) {
    await recordUsage(ledger.db, rangesOnly({ producerId: PRODUCER, epoch, shard, firstN: 1n, count: 1 }));
  }
  const usage = usageByShard(epoch);
  expect(usage.every(({ events }) => events.length > 0)).toBe(true);

  let recorded = 0;
  let proceed = () => {};
  let giveUp: (error: unknown) => void = () => {};
  const allRecorded = new Promise<void>((resolve, reject) => {
    proceed = resolve;
    giveUp = reject;
  });
  await Promise.all(
    usage.map((ofShard) =>
      ledger.db
        .transaction()
        .execute(async (tx) => {
          await sql`SET LOCAL lock_timeout = '5s'`.execute(tx);
          await recordInTransaction(tx, ofShard, new Date(), { appends: true });
          if (++recorded === USAGE_SHARDS) proceed();
          await allRecorded;
        })
        .catch((error) => {
          giveUp(error);
          throw error;
        }),
    ),
  );

  await mergeSpend(ledger.db, new Date());
  const { rows } = await sql<{ policy_id: string; spent: bigint; rows: bigint }>`
    SELECT policy_id, sum(spent_nano_usd)::bigint AS spent, count(*) AS rows
    FROM spend_buckets GROUP BY policy_id ORDER BY policy_id`.execute(ledger.db);
  const keys = BigInt(PRINCIPALS * KEYS_PER_PRINCIPAL);
  expect(rows).toEqual([
    // Beside what it limits, each policy counts what each principal spent.
    { policy_id: 'pol_company', spent: 2n * keys, rows: 1n + BigInt(PRINCIPALS) },
    { policy_id: LIMIT, spent: keys, rows: 2n },
    { policy_id: 'pol_key', spent: 2n * keys, rows: keys + BigInt(PRINCIPALS) },
    { policy_id: 'pol_team', spent: keys, rows: BigInt(PRINCIPALS) },
  ]);
});
