import { expect } from 'vitest';
import { chat, expectExact, type HostileCase, hard, message, PLENTY, responses } from './hostileCase.ts';
import type { Scene } from './scene.ts';

/** Enough for a short answer where the input is reserved at the dearest tier; far less than what the vendor would write. */
const LIMIT = 30_000;
const ROW = 'output limits as this vendor honours them';

/** However a request spells its output limit, the vendor gets the one that it honours. */
export const LIMITS: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'max_completion_tokens bounds a vendor that honours max_tokens',
    run: (scene) => expectLimited(scene, 'local/plain', { max_completion_tokens: 1 }, 1),
  },
  {
    row: ROW,
    title: 'max_tokens bounds a vendor that honours max_completion_tokens',
    run: (scene) => expectLimited(scene, 'openai/plain', { max_tokens: 1 }, 1),
  },
  {
    row: ROW,
    title: 'of two different limits, the vendor gets no more than what was reserved',
    async run(scene) {
      await expectLimited(scene, 'local/plain', { max_completion_tokens: 1, max_tokens: 30_000 }, undefined);
      await expectLimited(scene, 'openai/plain', { max_completion_tokens: 30_000, max_tokens: 1 }, undefined);
    },
  },
  {
    row: ROW,
    title: 'another spelling of a limit, or a second one, does not pass hard mode',
    async run({ tenant }) {
      const tried = await tenant(hard(LIMIT));
      const bodies = [
        '{"model":"local/plain","messages":[{"role":"user","content":"x"}],"max_tokens":1,"MAX_TOKENS":100000}',
        '{"model":"local/plain","messages":[{"role":"user","content":"x"}],"max_tokens":1,"Max_Tokens":100000}',
        '{"model":"local/plain","messages":[{"role":"user","content":"x"}],"max_tokens":1,"max_tokens":100000}',
        '{"model":"local/plain","messages":[{"role":"user","content":"x"}],"max_tokens":1,"max\\u005ftokens":100000}',
        '{"model":"local/plain","messages":[{"role":"user","content":"x"}],"max_tokens":1,"N":100}',
      ];
      for (const body of bodies) {
        await tried.ask('/v1/chat/completions', body, { script: { 'output-tokens': '60000' } });
        expect(tried.billed()).toBeLessThanOrEqual(LIMIT);
      }
    },
  },
  {
    row: ROW,
    title: 'a request without a limit gets one, on every route',
    async run({ tenant }) {
      for (const [path, body] of [
        ['/v1/chat/completions', chat('local/plain')],
        ['/v1/chat/completions', chat('openai/plain')],
        ['/v1/chat/completions', chat('openai/plain', { max_tokens: null, max_completion_tokens: null })],
        ['/v1/responses', responses()],
        ['/v1/messages', message({ max_tokens: undefined })],
      ] as const) {
        const tried = await tenant(hard(LIMIT));
        await tried.ask(path, body, { script: { 'output-tokens': '60000' } });
        expect(tried.billed()).toBeLessThanOrEqual(LIMIT);
      }
    },
  },
  {
    row: ROW,
    title: 'a compaction, which no field limits, is charged whole, and reserved whole under a hard budget',
    async run({ tenant }) {
      const script = { 'output-tokens': '60000', 'reasoning-tokens': '5000' };
      const fields = { max_output_tokens: 1, max_completion_tokens: 1, max_tokens: 1 };
      const free = await tenant();
      await free.ask('/v1/responses/compact', responses(), { script });
      await expectExact(free);
      // It affords all but a few tokens of what the model may write.
      const poor = await tenant(hard(128_000 * 4));
      for (const body of [responses(), responses({ max_output_tokens: 1 }), responses(fields)]) {
        await poor.ask('/v1/responses/compact', body, { script });
        await poor.ask('/openai/deployments/openai%2Fplain/responses/compact', body, { script });
      }
      expect(poor.billed()).toBe(0);
      const rich = await tenant(hard(PLENTY));
      const { status } = await rich.ask('/v1/responses/compact', responses(), { script });
      expect(status).toBe(200);
      await expectExact(rich);
    },
  },
  {
    row: ROW,
    title: 'a fallback with its own limit does not pass hard mode',
    async run({ tenant }) {
      const tried = await tenant(hard(LIMIT));
      const body = message({ max_tokens: 10, fallbacks: [{ model: 'plain', max_tokens: 60_000 }] });
      await tried.ask('/v1/messages', body, { script: { fallback: '1', 'output-tokens': '60000' } });
      expect(tried.billed()).toBeLessThanOrEqual(LIMIT);
    },
  },
];

async function expectLimited(
  { tenant }: Scene,
  model: string,
  limits: object,
  most: number | undefined,
): Promise<void> {
  const tried = await tenant(hard(LIMIT));
  const script = { 'output-tokens': '60000' };
  const answer = await tried.ask('/v1/chat/completions', chat(model, limits), { script });
  if (most !== undefined) expect(answer.status).toBe(200);
  expect(tried.billed()).toBeLessThanOrEqual(LIMIT);
  if (answer.status !== 200) return;
  if (most !== undefined) expect(tried.entries()[0]?.outputTokens).toBeLessThanOrEqual(most);
  await expectExact(tried);
}
