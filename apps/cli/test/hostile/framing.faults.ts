import { expect, it } from 'vitest';
import { longForm } from '../faults/longForm.ts';
import { fuzzFraming } from './framing/framing.ts';
import { openScene } from './scene.ts';

const CONVERSATIONS = 5_000;
const GROWTH_BYTES = 384 * 2 ** 20;

it('heads and framings of all kinds get their own answers, from programs and from pages, and are in the ledger once', async () => {
  const { seed, endsAt, log } = longForm(process.env);
  for (let round = 0; round === 0 || performance.now() < endsAt; round++) {
    const mode = round % 2 === 0 ? 'embedded' : 'distributed';
    const scene = await openScene(mode);
    try {
      const { wrong, ...figures } = await fuzzFraming(scene, CONVERSATIONS, seed + round);
      log('figures', `seed ${seed + round}, ${mode}: ${JSON.stringify(figures)}`);
      for (const one of wrong) log('WRONG', JSON.stringify(one));
      expect(wrong).toEqual([]);
      expect(figures.lines).toBeLessThan(CONVERSATIONS / 10);
      expect(figures.growth).toBeLessThan(GROWTH_BYTES);
    } finally {
      await scene.close();
    }
  }
});
