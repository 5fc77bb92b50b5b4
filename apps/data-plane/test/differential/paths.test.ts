import { expect, it } from 'vitest';
import { comparePaths } from './paths.ts';

// The long form, 100,000 requests a round, is `pnpm test:faults --form differential`.
const CASES = 600;
const SEED = 20_261_123;

it('both paths send, answer, record and charge alike, and as the reference expects', async () => {
  const { differences, statuses, charged } = await comparePaths(CASES, SEED);
  expect(differences).toEqual([]);
  expect(statuses[200]).toBeGreaterThan(CASES / 4);
  expect(statuses[400]).toBeGreaterThan(CASES / 20);
  expect(charged).toBeGreaterThan(CASES / 6);
});
