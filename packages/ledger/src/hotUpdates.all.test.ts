import { type BucketRef, keySubject, POLICY_SUBJECT } from '@weighbridge/budget';
import { seededRandom } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { eventId, ledgerEvent } from '../test/events.ts';
import { openMonth } from '../test/ledger.ts';
import { insertPolicy } from '../test/policies.ts';
import { answerLeaseCalls } from './leases/answerLeaseCalls.ts';
import { registerProducer } from './producers/producers.ts';
import { recordUsage } from './recording/recordUsage.ts';

const NOW = new Date('2026-11-10T12:00:00Z');
const START_MS = BigInt(Date.parse('2026-11-10T00:00:00Z'));
const KEYS = 2_000;
const ROUNDS = 8;
const SEED = 84;

const bucket = (policyId: string, subject: string): BucketRef => ({
  ...{ policyId, counterVersion: 1, subject },
  windowStartMs: START_MS,
});
const COMPANY = bucket('pol_company', POLICY_SUBJECT);
const ofKey = (n: number) => bucket('pol_keys', keySubject(`key_${n}`));

it('updates of buckets and leases stay on their page, and out of the indexes', async () => {
  // Postgres counts what a connection did.
  const database = await createTestDatabase(undefined, { maxConnections: 1 });
  const { db } = database;
  try {
    await openMonth(db, NOW);
    const limited = { limit_nano_usd: 1_000_000_000n, created_at: NOW };
    await insertPolicy(db, 'pol_keys', limited);
    await insertPolicy(db, 'pol_company', { counter_scope: 'policy', ...limited });
    const random = seededRandom(SEED);
    const some = (count: number) =>
      [...new Set(Array.from({ length: count }, () => Math.floor(random() * KEYS)))].sort((a, b) => a - b);
    const holders = [1, 2].map((n) => ({ producerId: eventId(n), epoch: eventId(10 + n) }));
    for (const holder of holders) await registerProducer(db, { ...holder, name: '', now: NOW });
    let events = 0;
    for (let round = 1; round <= ROUNDS; round++) {
      for (const holder of holders) {
        const ask = { seq: BigInt(round), returnedNanoUsd: 0n, wantNanoUsd: 100n, minimumNanoUsd: 0n };
        const calls = [COMPANY, ...some(400).map(ofKey)].map((one) => ({ bucket: one, ...ask }));
        await answerLeaseCalls(db, { ...holder, calls, now: NOW });
        const batch = some(2_000).map((n) => {
          const { row } = ledgerEvent(++events, {
            key: `key_${n}`,
            principal: `principal_${n % 100}`,
            cost: 7n,
          });
          const origin = { producer_id: holder.producerId, epoch: holder.epoch, shard: 0, n: BigInt(events) };
          return { row: { ...row, ...origin }, buckets: [ofKey(n), COMPANY], workloadType: undefined };
        });
        await recordUsage(db, { events: batch, refused: [], received: [] }, NOW);
      }
    }
    await sql`SELECT pg_stat_force_next_flush()`.execute(db);
    const { rows } = await sql<{ name: string; updates: number; hot: number }>`
      SELECT relname AS name, n_tup_upd::float8 AS updates, (n_tup_hot_upd / n_tup_upd::float8) AS hot
      FROM pg_stat_user_tables WHERE relname IN ('spend_buckets', 'budget_leases') ORDER BY relname`.execute(
      db,
    );
    process.stdout.write(
      `${rows.map((row) => `${row.name}: ${row.updates} updates, ${row.hot.toFixed(3)} in place`).join('\n')}\n`,
    );
    for (const { name, updates, hot } of rows) {
      expect(updates, name).toBeGreaterThan(ROUNDS * 1_000);
      // A changed column with an index leaves none of them in place. On a busy machine, a page is full before it was pruned, now and then.
      expect(hot, name).toBeGreaterThanOrEqual(0.7);
    }
  } finally {
    await database.drop();
  }
});
