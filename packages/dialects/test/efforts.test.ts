import { expect, it } from 'vitest';
import { EFFORTS } from '../src/ir/request.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

const BUDGETS = [1, 128, 512, 1_023, 1_024, 2_000, 4_095, 4_096, 10_239, 24_576, 64_000];

/** Every set of efforts that a model may take. */
const SETS = Array.from({ length: 2 ** EFFORTS.length - 1 }, (_, bits) =>
  EFFORTS.filter((_effort, at) => (bits + 1) & (2 ** at)),
);

it('asks a model not to reason only if the caller does, whatever efforts it takes', () => {
  const wrong: string[] = [];
  for (const efforts of SETS) {
    const target = targetOf('responses', { efforts });
    const effortOf = (from: 'messages' | 'gemini' | 'chat', body: object) =>
      JSON.parse(bodyOf(translate(from, body, target))).reasoning?.effort;
    const messages = [{ role: 'user', content: 'Hi' }];
    const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }];
    for (const budget of BUDGETS) {
      const thinking = { type: 'enabled', budget_tokens: budget };
      const asked = effortOf('messages', { messages, max_tokens: 100_000, thinking });
      const config = { thinkingConfig: { thinkingBudget: budget } };
      const askedByGemini = effortOf('gemini', { contents, generationConfig: config });
      for (const effort of [asked, askedByGemini])
        if (effort === 'none') wrong.push(`${budget} tokens of ${efforts}`);
    }
    for (const asked of EFFORTS.filter((effort) => effort !== 'none'))
      if (effortOf('chat', { messages, reasoning_effort: asked }) === 'none')
        wrong.push(`${asked} of ${efforts}`);
    const off = effortOf('messages', { messages, max_tokens: 9, thinking: { type: 'disabled' } });
    if (efforts.includes('none') && off !== 'none') wrong.push(`off of ${efforts}: ${off}`);
  }
  expect(wrong).toEqual([]);
});
