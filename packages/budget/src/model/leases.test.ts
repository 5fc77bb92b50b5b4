import { describe, expect, it } from 'vitest';
import { faults, findBreaking } from './faults.ts';
import { referenceLedger } from './referenceLedger.ts';
import { runSimulation } from './simulation.ts';

/** The long form runs 10,000 and more: `pnpm test:faults --form leases`. */
const SEQUENCES = 1_000;
const TIMEOUT_MS = 60_000;
const SIZE = { steps: 240, windowSteps: 150 };

/** Fails with the seed of the first simulation in which a limit did not hold; runSimulation({ seed, … }) repeats it. */
async function expectToHold(mode: 'hard' | 'balanced', seeds: number): Promise<void> {
  for (let seed = 1; seed <= seeds; seed++) {
    await runSimulation(referenceLedger(SIZE), { ...SIZE, seed, mode });
  }
}

describe('the rules of leases, in the reference model', () => {
  it(
    'never let the bill exceed the limit in hard mode, and leave nothing held at rest',
    async () => {
      await expectToHold('hard', SEQUENCES / 2);
    },
    TIMEOUT_MS,
  );

  it(
    'exceed it in balanced mode by no more than requests in flight exceed their reservations',
    async () => {
      await expectToHold('balanced', SEQUENCES / 2);
    },
    TIMEOUT_MS,
  );

  it.each(faults())('lose money or headroom with the fault %s', async (fault) => {
    expect(await findBreaking(fault, SIZE, { last: 1_000, count: 1 })).toHaveLength(1);
  });
});
