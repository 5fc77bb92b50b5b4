import { expect, it } from 'vitest';
import { compareForms } from './requestForms.ts';

// The long form, 100,000 requests a round, is `pnpm test:faults --form differential`.
const CASES = 600;
const SEED = 20_261_123;

it('a request sends, is answered, recorded and charged alike in each of its forms, and as the reference expects', async () => {
  const { differences, statuses, charged } = await compareForms(CASES, SEED);
  expect(differences).toEqual([]);
  expect(statuses[200]).toBeGreaterThan(CASES / 4);
  expect(statuses[400]).toBeGreaterThan(CASES / 20);
  expect(charged).toBeGreaterThan(CASES / 6);
});
