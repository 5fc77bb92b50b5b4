import { afterAll, beforeAll, expect, it } from 'vitest';
import { fuzz, inWords } from './fuzz/fuzz.ts';
import { openScene, type Scene } from './scene.ts';

// The long form, 10,000 requests a round, is `pnpm test:faults --form hostile`.
const REQUESTS = 1_000;
const SEED = 20_261_122;
const GROWTH_BYTES = 384 * 2 ** 20;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene('embedded', { greedy: true });
});
afterAll(() => scene?.close());

it(`${REQUESTS} changed requests cost what greedy vendors bill, pass no hard limit, and show nothing of others`, async () => {
  const result = await fuzz(scene, REQUESTS, SEED);
  process.stdout.write(`hostile requests, seed ${SEED}: ${inWords(result)}\n`);
  expect(result.wrong).toEqual([]);
  expect(result.billed).toBeGreaterThan(0);
  expect(result.charged).toBeGreaterThanOrEqual(result.billed);
  expect(result.growth).toBeLessThan(GROWTH_BYTES);
});
