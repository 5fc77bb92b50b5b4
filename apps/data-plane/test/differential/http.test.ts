import { expect, it } from 'vitest';
import { compareHttp } from './http.ts';

// The long form, 100,000 cases a round, is `pnpm test:faults --form differential`.
const CASES = 500;
const SEED = 20_261_124;

it('an answer is what llhttp reads, or is refused, however its bytes arrive', async () => {
  const { answers, refused, differences } = await compareHttp(CASES, SEED);
  expect(differences).toEqual([]);
  expect(Math.min(answers, refused)).toBeGreaterThan(CASES / 10);
});
