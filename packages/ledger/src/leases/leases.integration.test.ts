import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { faultySimulation, findBreaking } from '../../test/leases/faults.ts';
import type { Fault } from '../../test/leases/leaseLedger.ts';
import { lockstep } from '../../test/leases/lockstep.ts';
import { referenceLedger } from '../../test/leases/referenceLedger.ts';
import { runSimulation } from '../../test/leases/simulation.ts';
import { sqlLedger } from '../../test/leases/sqlLedger.ts';
import { openMonth } from '../../test/ledger.ts';
import type { LedgerEvent, ReceivedRange } from '../events/usage.ts';
import { recordUsage } from '../recording/recordUsage.ts';

const SEQUENCES = 500;
/** Each has its own policies, proxies and windows. */
const CONCURRENT_SIMULATIONS = 24;
/** It takes under a minute on an idle machine. */
const TIMEOUT_MS = 600_000;
const SIZE = { steps: 60, windowSteps: 45 };

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
let record: ReturnType<typeof gatherUsage>;
let nextSimulation = 0;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', maxConnections: 10, onIdleError: () => {} });
  await openMonth(db, new Date('2026-11-10T12:00:00Z'));
  record = gatherUsage(db);
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

/** Records the events of concurrent simulations in one transaction, as metering does. */
function gatherUsage(db: Database): (event: LedgerEvent, range: ReceivedRange) => Promise<void> {
  let waiting: { event: LedgerEvent; range: ReceivedRange; done: (error?: unknown) => void }[] = [];
  let isRecording = false;
  async function recordWaiting() {
    isRecording = true;
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      const usage = {
        events: batch.map(({ event }) => event),
        refused: [],
        received: batch.map(({ range }) => range),
      };
      const error = await recordUsage(db, usage).then(
        () => undefined,
        (reason) => reason,
      );
      for (const { done } of batch) done(error);
    }
    isRecording = false;
  }
  return (event, range) =>
    new Promise((resolve, reject) => {
      waiting.push({ event, range, done: (error) => (error ? reject(error) : resolve()) });
      if (!isRecording) setImmediate(() => void (isRecording || recordWaiting()));
    });
}

describe('the ledger', () => {
  it(
    'grants, settles and closes exactly by the rules, so that the bill never exceeds the limits',
    async () => {
      let seed = 0;
      const worker = async () => {
        while (seed < SEQUENCES) {
          const mine = ++seed;
          const ledger = lockstep(
            referenceLedger(SIZE),
            sqlLedger({ db, simulation: nextSimulation++, ...SIZE, record }),
          );
          const options = { ...SIZE, seed: mine, mode: mine % 2 === 0 ? 'balanced' : 'hard' } as const;
          await runSimulation(ledger, options).catch((error) => {
            seed = SEQUENCES;
            throw new Error(`runSimulation(${JSON.stringify(options)}) failed`, { cause: error });
          });
        }
      };
      await Promise.all(Array.from({ length: CONCURRENT_SIMULATIONS }, worker));
      await expectSums();
    },
    TIMEOUT_MS,
  );

  const planted: readonly Fault[] = [
    'settle-by-reserve',
    'close-returns-unsettled',
    'expiry-refunds',
    'restart-refunds',
    'grants-again',
    'grants-as-deltas',
    'returns-as-deltas',
    'counter-not-carried',
    'forget-overage',
    'stamp-at-settle',
  ];
  it.each(planted)('fails the simulation with the fault %s', async (fault) => {
    const size = { steps: 120, windowSteps: 90 };
    const [breaking] = await findBreaking(fault, size, { last: 3_000, count: 1 });
    if (!breaking) throw new Error(`no seed reveals ${fault}`);
    const ledger = sqlLedger({ db, simulation: nextSimulation++, ...size, record, fault });
    await expect(runSimulation(ledger, faultySimulation(fault, breaking.seed, size))).rejects.toThrow(
      `seed ${breaking.seed}, step `,
    );
  });
});

/** Checks that each bucket's leased amount is the sum of its leases' holds, and its spend the sum of its events' costs. */
async function expectSums(): Promise<void> {
  const { rows: leased } = await sql`
    SELECT bucket.bucket_key, bucket.leased_nano_usd, held.nano_usd
    FROM spend_buckets AS bucket
    LEFT JOIN (
      SELECT key, sum(hold_nano_usd) AS nano_usd
      FROM budget_leases CROSS JOIN LATERAL unnest(ARRAY[bucket_key, also_bucket_key]) AS key
      GROUP BY key
    ) AS held ON held.key = bucket.bucket_key
    WHERE bucket.leased_nano_usd <> coalesce(held.nano_usd, 0)`.execute(db);
  expect(leased).toEqual([]);
  const { rows: spent } = await sql`
    SELECT bucket.bucket_key, bucket.spent_nano_usd, bucket.opening_nano_usd, counted.nano_usd
    FROM spend_buckets AS bucket
    LEFT JOIN (
      SELECT key, sum(cost_nano_usd) AS nano_usd FROM usage_events CROSS JOIN LATERAL unnest(bucket_keys) AS key GROUP BY key
    ) AS counted ON counted.key = bucket.bucket_key
    WHERE bucket.spent_nano_usd <> bucket.opening_nano_usd + coalesce(counted.nano_usd, 0)`.execute(db);
  expect(spent).toEqual([]);
}
