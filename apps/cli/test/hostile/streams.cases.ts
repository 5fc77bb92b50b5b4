import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import {
  chat,
  expectCovered,
  expectExact,
  type HostileCase,
  hard,
  message,
  PLENTY,
  responses,
} from './hostileCase.ts';
import type { Tenant } from './scene.ts';

const ROW = 'streams and answers that are left';
const slow = { 'chunk-delay-ms': '50' };
/** Its tokens are shorter than a prompt's usually are. */
const prose = '7 4 1 9 '.repeat(2_000);

/** Leaves all requests once the vendors work on them, some time before their answers begin. */
async function leaveBeforeAll(
  tried: Tenant,
  requests: readonly (readonly [string, unknown])[],
  script: Record<string, string>,
  afterMs = 200,
): Promise<void> {
  const controller = new AbortController();
  const asking = { script, signal: controller.signal };
  const before = tried.entries().length;
  const asked = requests.map(([path, body]) => tried.ask(path, body, asking));
  await eventually(() => expect(tried.entries().length - before).toBe(requests.length));
  await sleep(afterMs);
  controller.abort();
  await Promise.allSettled(asked);
}

/** A client that leaves pays for what the vendor bills, as far as that is reserved: under a hard budget, for all of it. */
export const STREAMS: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'hidden reasoning is charged, where the vendor stops billing at the disconnect',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const script = {
        ...slow,
        'output-tokens': '3000',
        'reasoning-tokens': '4000',
        'hidden-reasoning': 'true',
      };
      const thinking = { type: 'adaptive' };
      const body = message({ stream: true, max_tokens: 8_000, thinking });
      await tried.leave('/v1/messages', body, { script, afterBytes: 600 });
      const reasoning = { effort: 'high' };
      const asked = responses({ stream: true, max_output_tokens: 8_000, reasoning });
      await tried.leave('/v1/responses', asked, { script, afterBytes: 600 });
      await expectCovered(tried, 2);
    },
  },
  {
    row: ROW,
    title: 'what a vendor generates after the disconnect is charged',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const script = { 'chunk-delay-ms': '100', 'output-tokens': '3000', 'after-disconnect': 'bill' };
      const body = chat('local/plain', { stream: true, max_tokens: 3_000 });
      await tried.leave('/v1/chat/completions', body, { script, afterBytes: 300 });
      await expectCovered(tried);
    },
  },
  {
    row: ROW,
    title: 'a document that is generated when the client leaves is charged',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const script = { 'generate-ms': '4000', 'output-tokens': '3000', 'after-disconnect': 'bill' };
      const limits = { max_tokens: 3_000 };
      const controller = new AbortController();
      const asking = { script, signal: controller.signal };
      const asked = [
        tried.ask('/v1/chat/completions', chat('local/plain', limits), asking),
        tried.ask('/v1/messages', message(limits), asking),
      ];
      await eventually(() => expect(tried.entries()).toHaveLength(2));
      controller.abort();
      await Promise.allSettled(asked);
      await expectCovered(tried, 2);
    },
  },
  {
    row: ROW,
    title: 'a document that breaks off, or is left, midway is charged',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const reset = { 'output-tokens': '3000', reset: 'mid' };
      const limits = { max_tokens: 3_000 };
      await tried
        .ask('/v1/chat/completions', chat('local/plain', limits), { script: reset })
        .catch(() => undefined);
      const script = { 'output-tokens': '3000', 'pad-bytes': '30000000' };
      await tried.leave('/v1/messages', message(limits), { script, afterBytes: 1_500 });
      await expectCovered(tried, 2);
    },
  },
  {
    row: ROW,
    title: 'reasoning that no one asked for is charged, whether the stream breaks off or is left',
    async run({ tenant }) {
      const limits = { max_completion_tokens: 8_000 };
      const body = chat('openai/plain', { stream: true, ...limits });
      const script = { ...slow, 'output-tokens': '300', 'reasoning-tokens': '4000' };
      for (const isLeft of [false, true]) {
        const tried = await tenant(hard(PLENTY));
        if (isLeft) await tried.leave('/v1/chat/completions', body, { script, afterBytes: 300 });
        else await tried.ask('/v1/chat/completions', body, { script: { ...script, reset: 'mid' } });
        await expectCovered(tried);
      }
    },
  },
  {
    row: ROW,
    title: 'a stored answer whose owner is known too late is withheld, and charged',
    async run({ tenant }) {
      for (const mode of ['balanced', 'hard']) {
        const tried = await tenant({ ...hard(PLENTY), budget_mode: mode });
        const script = { 'output-tokens': '1500', 'pad-bytes': '3000000', 'id-at': 'end' };
        const body = responses({ max_output_tokens: 3_000 });
        const answer = await tried.ask('/v1/responses', body, { script });
        expect([answer.status, answer.code]).toEqual([502, 'response_not_recorded']);
        await expectExact(tried);
      }
    },
  },
  {
    row: ROW,
    title: 'whoever always leaves before the first byte of a stream pays what the vendor bills by then',
    async run(scene) {
      const script = { 'generate-ms': '20000', 'reasoning-tokens': '3000' };
      const cached = { messages: [{ role: 'user', content: prose }], cache_control: { type: 'ephemeral' } };
      const bodies = {
        '/v1/chat/completions': chat('openai/plain', { stream: true }),
        '/v1/responses': responses({ stream: true, input: prose, reasoning: { effort: 'high' } }),
        '/v1/messages': message({ stream: true, ...cached, max_tokens: 128 }),
      };
      for (const policy of [{}, hard(PLENTY)]) {
        const tried = await scene.tenant(policy);
        await leaveBeforeAll(tried, Object.entries(bodies), script);
        await expectCovered(tried, 3);
      }
    },
  },
  {
    row: ROW,
    title: 'whoever lets a model think for long, and leaves before the first byte, pays for that',
    async run({ tenant }) {
      const tried = await tenant();
      // More than the usual length, which is reserved.
      const script = { 'generate-ms': '8000', 'reasoning-tokens': '1500' };
      const asked = chat('openai/plain', { stream: true });
      await leaveBeforeAll(tried, [['/v1/chat/completions', asked]], script, 7_000);
      await expectCovered(tried);
      expect(tried.entries()[0]?.outputTokens).toBeGreaterThan(1_024);
    },
  },
  {
    row: ROW,
    title: 'media in a stream that is left is charged',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { ...slow, 'output-tokens': '300', 'output-audio-tokens': '200' };
      const audio = { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } };
      const body = chat('openai/plain', { stream: true, max_completion_tokens: 2_000, ...audio });
      await tried.leave('/v1/chat/completions', body, { script, afterBytes: 300 });
      await expectCovered(tried);
    },
  },
  {
    row: ROW,
    title: 'input that the request only names is charged, whoever leaves its stream, and when',
    async run(scene) {
      const script = { 'chunk-delay-ms': '20', 'output-tokens': '40', 'input-tokens': '150000' };
      const long = { ...script, 'chunk-delay-ms': '0', 'generate-ms': '700' };
      const url = 'https://example.com/long.pdf';
      const part = (one: object) => [{ role: 'user', content: [one] }];
      const image = chat('openai/plain', {
        stream: true,
        messages: part({ type: 'image_url', image_url: { url } }),
      });
      const file = responses({ stream: true, input: part({ type: 'input_file', file_url: url }) });
      const bodies = [
        ['/v1/chat/completions', image],
        ['/v1/chat/completions', JSON.stringify(image).replaceAll('image_url', 'image\\u005furl')],
        ['/v1/responses', file],
        ['/v1/responses', responses({ stream: true, prompt: { id: 'pmpt_1' } })],
        ['/v1/responses', responses({ stream: true, conversation: 'conv_left' })],
        ['/v1/responses', responses({ stream: true, input: [{ type: 'item_reference', id: 'msg_left' }] })],
      ] as const;
      for (const [path, body] of bodies) {
        const tried = await scene.tenant();
        await tried.leave(path, body, { script, afterBytes: 200 });
        await expectCovered(tried);
        await leaveBeforeAll(tried, [[path, body]], long, 50);
        await expectCovered(tried, 2);
      }
    },
  },
];
