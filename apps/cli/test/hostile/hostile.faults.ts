import { expect, it } from 'vitest';
import { longForm } from '../faults/longForm.ts';
import { fuzz, inWords } from './fuzz/fuzz.ts';
import { openScene } from './scene.ts';

const REQUESTS = 10_000;
const GROWTH_BYTES = 512 * 2 ** 20;

it('changed requests cost what greedy vendors bill, pass no hard limit, and show nothing of others', async () => {
  const { seed, endsAt, log } = longForm(process.env);
  for (let round = 0; round === 0 || performance.now() < endsAt; round++) {
    const mode = round % 2 === 0 ? 'embedded' : 'distributed';
    const scene = await openScene(mode, { greedy: true });
    try {
      const result = await fuzz(scene, REQUESTS, seed + round);
      log('figures', `seed ${seed + round}, ${mode}: ${inWords(result)}`);
      for (const one of result.wrong) log('WRONG', JSON.stringify(one));
      expect(result.wrong).toEqual([]);
      expect(result.charged).toBeGreaterThanOrEqual(result.billed);
      expect(result.growth).toBeLessThan(GROWTH_BYTES);
    } finally {
      await scene.close();
    }
  }
});
