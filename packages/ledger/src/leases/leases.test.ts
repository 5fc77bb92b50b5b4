import { describe, expect, it } from 'vitest';
import { faults, findBreaking } from '../../test/leases/faults.ts';
import { referenceLedger } from '../../test/leases/referenceLedger.ts';
import { runSimulation } from '../../test/leases/simulation.ts';

const SEQUENCES = 10_000;
/** Some three seconds, on a machine that does nothing else. */
const TIMEOUT_MS = 120_000;
const SIZE = { steps: 240, windowSteps: 150 };

/** Fails with the seed of the first world in which a limit did not hold; runSimulation({ seed, … }) repeats it. */
async function expectToHold(mode: 'hard' | 'balanced', seeds: number): Promise<void> {
  for (let seed = 1; seed <= seeds; seed++) {
    await runSimulation(referenceLedger(SIZE), { ...SIZE, seed, mode });
  }
}

describe('the rules of leases, as a model', () => {
  it(
    'never let the bill exceed the limit in hard mode, and leave nothing held at rest',
    async () => {
      await expectToHold('hard', SEQUENCES / 2);
    },
    TIMEOUT_MS,
  );

  it(
    'exceed it in balanced mode by no more than what was in flight over its reserve',
    async () => {
      await expectToHold('balanced', SEQUENCES / 2);
    },
    TIMEOUT_MS,
  );

  it.each(faults())('lose money, or room for good, once broken by %s', async (fault) => {
    expect(await findBreaking(fault, SIZE, { last: 300, count: 1 })).toHaveLength(1);
  });
});
