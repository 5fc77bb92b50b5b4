import { createTestDatabase } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { type FoldFault, FoldSimulation } from '../../test/folding/simulation.ts';
import { simulateYear } from '../../test/folding/year.ts';

const SEEDS = 8;
const STEPS = 70;

async function simulate(seed: number, fault?: FoldFault): Promise<void> {
  const database = await createTestDatabase();
  try {
    await new FoldSimulation(database, seed, fault).run(STEPS);
  } finally {
    await database.drop();
  }
}

describe('folding windows', () => {
  it('loses and doubles nothing, whatever comes late, crashes or is rebuilt', async () => {
    for (let seed = 1; seed <= SEEDS; seed++) await simulate(seed);
  });

  const planted: readonly FoldFault[] = ['folds-twice', 'folds-held', 'loses-late', 'forgets-openings'];
  it.each(planted)('fails the simulation with the fault %s', async (fault) => {
    await expect(
      (async () => {
        for (let seed = 1; seed <= SEEDS; seed++) await simulate(seed, fault);
      })(),
    ).rejects.toThrow(/^seed \d+/);
  });

  it('keeps buckets and leases to those of open windows for a year, plus a row a counter and month', async () => {
    const database = await createTestDatabase();
    try {
      const year = await simulateYear(database.db);
      process.stdout.write(`${year.table}\n`);
      expect(year.violations).toEqual([]);
    } finally {
      await database.drop();
    }
  });
});
