import { lockstep, referenceLedger, runSimulation } from '@weighbridge/budget/model';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { expect } from 'vitest';
import { AMOUNT } from '../../src/buckets/amountIn.ts';
import type { UsageToRecord } from '../../src/events/usage.ts';
import { recordUsage } from '../../src/recording/recordUsage.ts';
import { sqlLedger } from './sqlLedger.ts';

/** Each has its own policies, proxies and windows. */
const CONCURRENT_SIMULATIONS = 24;
const SIZE = { steps: 60, windowSteps: 45 };

type RecordSome = (usage: UsageToRecord) => Promise<void>;

export interface SequencesOptions {
  readonly db: Database;
  readonly record: RecordSome;
  /** A number that no other simulation on this database has. */
  readonly nextSimulation: () => number;
  readonly firstSeed: number;
  readonly count: number;
}

/** Runs random sequences on the ledger and on the reference in lockstep. Throws with the seed of one in which they differ. */
export async function compareSequences(options: SequencesOptions): Promise<void> {
  const { db, record, nextSimulation, firstSeed, count } = options;
  const end = firstSeed + count;
  let seed = firstSeed;
  const worker = async () => {
    while (seed < end) {
      const mine = seed++;
      const ledger = lockstep(
        referenceLedger(SIZE),
        sqlLedger({ db, simulation: nextSimulation(), ...SIZE, record }),
      );
      const simulation = { ...SIZE, seed: mine, mode: mine % 2 === 0 ? 'balanced' : 'hard' } as const;
      await runSimulation(ledger, simulation).catch((error) => {
        seed = end;
        throw new Error(`runSimulation(${JSON.stringify(simulation)}) failed`, { cause: error });
      });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_SIMULATIONS }, worker));
}

/** Records the usage of concurrent simulations in one transaction, as metering does. */
export function recordInBatches(db: Database): RecordSome {
  let waiting: { usage: UsageToRecord; done: (error?: unknown) => void }[] = [];
  let isRecording = false;
  async function recordWaiting() {
    isRecording = true;
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      const usage = {
        events: batch.flatMap((one) => one.usage.events),
        refused: batch.flatMap((one) => one.usage.refused),
        received: batch.flatMap((one) => one.usage.received),
      };
      const error = await recordUsage(db, usage, new Date(), { appends: true }).then(
        () => undefined,
        (reason) => reason,
      );
      for (const { done } of batch) done(error);
    }
    isRecording = false;
  }
  return (usage) =>
    new Promise((resolve, reject) => {
      waiting.push({ usage, done: (error) => (error ? reject(error) : resolve()) });
      if (!isRecording) setImmediate(() => void (isRecording || recordWaiting()));
    });
}

/** Checks that each bucket's leased amount is the sum of its leases' holds, and its spend the sum of its events' costs. */
export async function expectSums(db: Database): Promise<void> {
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
      SELECT bucket_key AS key, sum(${AMOUNT}) AS nano_usd
      FROM usage_events CROSS JOIN LATERAL unnest(bucket_keys) AS bucket_key GROUP BY bucket_key
    ) AS counted ON counted.key = bucket.bucket_key
    WHERE bucket.spent_nano_usd <> bucket.opening_nano_usd + coalesce(counted.nano_usd, 0)`.execute(db);
  expect(spent).toEqual([]);
}
