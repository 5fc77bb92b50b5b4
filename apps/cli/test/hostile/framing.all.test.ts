import { afterAll, beforeAll, expect, it } from 'vitest';
import { fuzzFraming } from './framing/framing.ts';
import { openScene, type Scene } from './scene.ts';

// The long form, round after round, is `pnpm test:faults --form framing`.
const CONVERSATIONS = 300;
const SEED = 20_261_122;
const GROWTH_BYTES = 256 * 2 ** 20;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene('embedded');
});
afterAll(() => scene?.close());

it('heads and framings of all kinds get their own answers, from programs and from pages, and are in the ledger once', async () => {
  const { wrong, ...figures } = await fuzzFraming(scene, CONVERSATIONS, SEED);
  process.stdout.write(`hostile framing, seed ${SEED}: ${JSON.stringify(figures)}\n`);
  expect(wrong).toEqual([]);
  expect(figures.statuses[200]).toBeGreaterThan(CONVERSATIONS / 4);
  expect(figures.statuses[400]).toBeGreaterThan(CONVERSATIONS / 4);
  expect(figures.rows).toBeGreaterThan(CONVERSATIONS / 4);
  expect(figures.lines).toBeLessThan(20);
  expect(figures.growth).toBeLessThan(GROWTH_BYTES);
});
