import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { chat, expectCovered, type HostileCase, hard, message, PLENTY, responses } from './hostileCase.ts';

const ROW = 'streams and answers that are left';
const slow = { 'chunk-delay-ms': '50' };

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
];
