import { referenceLedger, runSimulation } from '@weighbridge/budget/model';
import { createTestDatabase } from '@weighbridge/testing';
import { it } from 'vitest';
import { openMonth } from '../ledger.ts';
import { compareSequences, expectSums, recordInBatches } from './sequences.ts';

const SEQUENCES_PER_ROUND = 500;
const MODEL_SEQUENCES = 10_000;
const MODEL_SIZE = { steps: 240, windowSteps: 150 };

it('the ledger grants, settles and closes exactly as the reference, sequence after sequence', async () => {
  const [seed, minutes] = [Number(process.env.FAULTS_SEED), Number(process.env.FAULTS_MINUTES)];
  const endsAt = performance.now() + minutes * 60_000;
  for (let at = 0; at < MODEL_SEQUENCES; at++) {
    const mode = at % 2 === 0 ? 'balanced' : 'hard';
    await runSimulation(referenceLedger(MODEL_SIZE), { ...MODEL_SIZE, seed: seed + at, mode });
  }
  let nextSimulation = 0;
  for (
    let firstSeed = seed;
    nextSimulation === 0 || performance.now() < endsAt;
    firstSeed += SEQUENCES_PER_ROUND
  ) {
    const database = await createTestDatabase(undefined, { maxConnections: 10 });
    try {
      const { db } = database;
      await openMonth(db, new Date('2026-11-10T12:00:00Z'));
      await compareSequences({
        db,
        record: recordInBatches(db),
        nextSimulation: () => nextSimulation++,
        firstSeed,
        count: SEQUENCES_PER_ROUND,
      });
      await expectSums(db);
      process.stdout.write(`seeds ${firstSeed} to ${firstSeed + SEQUENCES_PER_ROUND - 1}: exact\n`);
    } finally {
      await database.drop();
    }
  }
});
