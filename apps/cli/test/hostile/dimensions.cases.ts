import { expect } from 'vitest';
import {
  chat,
  expectCovered,
  expectExact,
  type HostileCase,
  hard,
  message,
  responses,
} from './hostileCase.ts';
import type { Scene } from './scene.ts';

const TIERS = 'tiers, speed, geography, context';
const big = { 'input-tokens': '200001' };

/** What vendors price by besides tokens. */
export const DIMENSIONS: readonly HostileCase[] = [
  {
    row: TIERS,
    title: 'the service tier in the answer sets the price, on every route, streamed and not',
    async run({ tenant }) {
      const tried = await tenant();
      for (const stream of [false, true]) {
        const asked = { service_tier: 'priority', stream };
        for (const script of [{}, { 'served-tier': 'default' }]) {
          await tried.ask('/v1/chat/completions', chat('openai/plain', asked), { script });
          await tried.ask('/v1/responses', responses(asked), { script });
        }
      }
      await expectExact(tried, 8);
    },
  },
  {
    row: TIERS,
    title: 'a tier that no one asked for is charged too',
    async run({ tenant }) {
      const tried = await tenant();
      await tried.ask('/v1/chat/completions', chat('openai/plain'), {
        script: { 'served-tier': 'priority' },
      });
      await expectExact(tried);
    },
  },
  {
    row: TIERS,
    title: 'speed, geography and long contexts have their prices, streamed and not',
    async run({ tenant }) {
      const tried = await tenant();
      for (const stream of [false, true]) {
        await tried.ask('/v1/messages', message({ stream, speed: 'fast' }));
        await tried.ask('/v1/messages', message({ stream, inference_geo: 'us' }));
        await tried.ask('/v1/messages', message({ stream }), { script: big });
        await tried.ask('/v1/messages', message({ stream, speed: 'fast' }), {
          script: { 'served-speed': 'standard' },
        });
      }
      await expectExact(tried, 8);
    },
  },
  {
    row: TIERS,
    title: 'audio and images have their prices',
    async run({ tenant }) {
      const tried = await tenant();
      const script = {
        'input-tokens': '2000',
        'cached-tokens': '300',
        'input-audio-tokens': '400',
        'cached-audio-tokens': '100',
        'input-image-tokens': '500',
        'output-tokens': '20',
        'output-audio-tokens': '600',
        'output-image-tokens': '70',
      };
      for (const stream of [false, true]) {
        await tried.ask('/v1/chat/completions', chat('openai/plain', { stream }), { script });
        await tried.ask('/v1/responses', responses({ stream }), { script });
      }
      await expectExact(tried, 4);
    },
  },
  {
    row: TIERS,
    title: 'cache writes cost by their time to live',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { 'input-tokens': '2000', 'cache-write-tokens': '300', 'cache-write-1h-tokens': '400' };
      for (const stream of [false, true]) await tried.ask('/v1/messages', message({ stream }), { script });
      await expectExact(tried, 2);
    },
  },
  {
    row: TIERS,
    title: 'cache writes whose time to live the answer hides cost what was asked for',
    async run({ tenant }) {
      const script = { 'input-tokens': '2000', 'hidden-cache-ttl': 'true' };
      for (const [ttl, written] of [
        ['5m', 'cache-write-tokens'],
        ['1h', 'cache-write-1h-tokens'],
      ] as const) {
        const tried = await tenant();
        const content = [{ type: 'text', text: 'weigh', cache_control: { type: 'ephemeral', ttl } }];
        for (const stream of [false, true]) {
          const body = message({ stream, messages: [{ role: 'user', content }] });
          await tried.ask('/v1/messages', body, { script: { ...script, [written]: '700' } });
        }
        await expectExact(tried, 2);
      }
    },
  },
  {
    row: TIERS,
    title: 'what the catalog has no price for costs no less than the vendor charges, and its row says so',
    async run({ tenant }) {
      const tried = await tenant();
      await tried.ask('/v1/chat/completions', chat('openai/surprise', { service_tier: 'priority' }));
      const search = { model: 'openai/surprise', tools: [{ type: 'web_search' }] };
      await tried.ask('/v1/responses', responses(search), { script: { 'tool-uses': 'web_search=3' } });
      await expectCovered(tried, 2);
      const rows = (await tried.rows(2)) as { attempts: { price_incomplete: boolean }[] }[];
      expect(rows.flatMap(({ attempts }) => attempts.map((attempt) => attempt.price_incomplete))).toEqual([
        true,
        true,
      ]);
    },
  },
  {
    row: TIERS,
    title: 'hard mode reserves at the dearest tier that the request allows',
    run: (scene) => expectBounded(scene, { service_tier: 'priority' }, { 'served-tier': 'priority' }),
  },
  {
    row: TIERS,
    title: 'hard mode reserves no tier of length that the input cannot reach',
    async run({ tenant }) {
      const tried = await tenant(hard(40_000));
      const body = chat('openai/plain', { max_completion_tokens: 800, service_tier: 'priority' });
      const answer = await tried.ask('/v1/chat/completions', body, { script: { 'output-tokens': '800' } });
      expect(answer.status).toBe(200);
      await expectExact(tried);
    },
  },
  {
    row: TIERS,
    title: 'hard mode is not passed by a speed or a place that costs more',
    async run(scene) {
      const limit = 60_000;
      const tried = await scene.tenant(hard(limit));
      for (let at = 0; at < 10; at++) {
        for (const asked of [{ speed: 'fast' }, { inference_geo: 'us' }]) {
          const body = message({ max_tokens: 400, ...asked });
          await tried.ask('/v1/messages', body, { script: { 'output-tokens': '400' } });
        }
      }
      expect(tried.billed()).toBeLessThanOrEqual(limit);
      expect(tried.billed()).toBeGreaterThan(0);
      await expectExact(tried, tried.entries().length);
    },
  },
];

/** However many requests are sent at once, a hard limit holds; what was answered was charged. */
async function expectBounded(
  { tenant }: Scene,
  asked: object,
  script: Record<string, string>,
): Promise<void> {
  const limit = 400_000;
  const tried = await tenant(hard(limit));
  const body = chat('openai/plain', { max_completion_tokens: 4_000, ...asked });
  const asking = { script: { 'output-tokens': '4000', ...script } };
  await Promise.all(Array.from({ length: 25 }, () => tried.ask('/v1/chat/completions', body, asking)));
  expect(tried.billed()).toBeLessThanOrEqual(limit);
  expect(tried.billed()).toBeGreaterThan(0);
  await expectExact(tried, tried.entries().length);
}
