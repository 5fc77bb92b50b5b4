import { expect, it } from 'vitest';
import { compareScanners, type Difference } from './scanners.ts';

// The long form, 100,000 cases a round, is `pnpm test:faults --form differential`.
const CASES = 2_000;
const SEED = 20_261_123;

it('what scanners read of requests and answers, in any pieces, is what JSON.parse reads', async () => {
  const differences: Difference[] = [];
  for (let at = 0; at < CASES; at++) differences.push(...(await compareScanners(SEED + at)));
  expect(differences).toEqual([]);
});
