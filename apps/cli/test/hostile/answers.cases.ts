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

const LARGE = { 'pad-bytes': String(40 * 2 ** 20), 'output-tokens': '38000' };
const ROW = 'usage in answers of any size';

/** What an answer reports, wherever it does, is what is charged. */
export const ANSWERS: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'an answer of 40 MiB costs what its usage says, at its end or at its start',
    async run({ tenant }) {
      const tried = await tenant();
      for (const place of ['end', 'start']) {
        const answer = await tried.ask('/v1/chat/completions', chat('openai/plain'), {
          script: { ...LARGE, 'usage-at': place },
        });
        expect(answer.text.length).toBeGreaterThan(40 * 2 ** 20);
      }
      await expectExact(tried, 2);
    },
  },
  {
    row: ROW,
    title: 'a single event of 20 MiB that reports the usage is read',
    async run({ tenant }) {
      const tried = await tenant();
      const script = {
        ...LARGE,
        'pad-bytes': String(20 * 2 ** 20),
        'output-tokens': '380',
        padding: 'objects',
      };
      await tried.ask('/v1/messages', message({ stream: true }), { script });
      await tried.ask('/v1/responses', responses({ stream: true }), { script });
      await tried.ask('/v1/responses', responses({ stream: true }), {
        script: { ...script, 'usage-at': 'start' },
      });
      await expectExact(tried, 3);
    },
  },
  {
    row: ROW,
    title: 'a large answer without usage costs its reservation',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const body = chat('openai/plain', { max_completion_tokens: 38_000 });
      await tried.ask('/v1/chat/completions', body, { script: { ...LARGE, 'no-usage': 'true' } });
      await expectCovered(tried);
    },
  },
  {
    row: 'usage.iterations',
    title: 'a compaction outside of the top-level usage is charged, streamed and not',
    async run({ tenant }) {
      const tried = await tenant();
      for (const stream of [false, true]) {
        await tried.ask('/v1/messages', message({ stream }), { script: { 'compaction-tokens': '5000' } });
      }
      await expectExact(tried, 2);
    },
  },
  {
    row: 'embeddings',
    title: 'arrays of token numbers count where the vendor reports no usage',
    async run({ tenant }) {
      const tried = await tenant();
      const input = Array.from({ length: 20 }, () => Array.from({ length: 200 }, (_, at) => at));
      await tried.ask('/v1/embeddings', { model: 'openai/plain', input }, { script: { 'no-usage': 'true' } });
      await expectCovered(tried);
    },
  },
  {
    row: 'background',
    title: 'a background response that no one reads is charged its reservation at once, then what it used',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { 'background-ms': '3000', 'pending-usage': 'zero', 'output-tokens': '900' };
      const body = responses({ background: true, max_output_tokens: 1_000 });
      expect((await tried.ask('/v1/responses', body, { script })).json.status).toBe('queued');
      expect(await tried.charged()).toBeGreaterThan(900 * 4);
      await eventually(async () => expect(await tried.charged()).toBe(tried.billed()), { timeoutMs: 25_000 });
    },
  },
  {
    row: 'background',
    title: 'reading a background response to its end corrects what it costs',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { 'background-ms': '600', 'output-tokens': '900' };
      const { json } = await tried.ask(
        '/v1/responses',
        responses({ background: true, max_output_tokens: 1_000 }),
        {
          script,
        },
      );
      await eventually(async () => {
        const read = await tried.ask(`/v1/responses/${json.id}`, undefined);
        expect(read.json.status).toBe('completed');
      });
      await eventually(async () => expect(await tried.charged()).toBe(tried.billed()), { timeoutMs: 25_000 });
    },
  },
  {
    row: 'background',
    title: 'hard mode refuses a background response without a limit',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const refused = await tried.ask('/v1/responses', responses({ background: true }));
      expect(refused.status).toBe(400);
      expect(refused.text).toContain('max_output_tokens');
      expect(tried.entries()).toEqual([]);
    },
  },
  {
    row: 'background',
    title: 'deleting a background response does not hide what it cost',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { 'background-ms': '2500', 'tool-uses': 'code_interpreter=5' };
      const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }];
      const body = responses({ background: true, max_output_tokens: 16, tools });
      const { json } = await tried.ask('/v1/responses', body, { script });
      const remove = () => tried.ask(`/v1/responses/${json.id}`, undefined, { method: 'DELETE' });
      const early = await remove();
      expect([early.status, early.code]).toEqual([409, 'response_unfinished']);
      await eventually(async () => expect((await remove()).status).toBe(200), { timeoutMs: 20_000 });
      await eventually(async () => expect(await tried.charged()).toBe(tried.billed()));
    },
  },
  {
    row: 'background',
    title: 'a background response that is cancelled, then deleted, is charged all that it may have read',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { 'background-ms': '30000', 'input-tokens': '150000', 'output-tokens': '10' };
      const asked = { background: true, max_output_tokens: 16, conversation: 'conv_long' };
      const { json } = await tried.ask('/v1/responses', responses(asked), { script });
      const path = `/v1/responses/${json.id}`;
      expect((await tried.ask(`${path}/cancel`, {})).json.status).toBe('cancelled');
      await eventually(async () =>
        expect((await tried.ask(path, undefined, { method: 'DELETE' })).status).toBe(200),
      );
      await expectCovered(tried);
    },
  },
  {
    row: 'background',
    title: 'tools of a background response cost what their models and containers cost',
    async run({ tenant }) {
      const tried = await tenant();
      const script = {
        'background-ms': '600',
        'tool-uses': 'code_interpreter=2,image_generation=1',
        'image-tool-tokens': '4000',
      };
      const container = { type: 'auto', memory_limit: '4g' };
      const tools = [
        { type: 'image_generation', model: 'gpt-image-1' },
        { type: 'code_interpreter', container },
      ];
      const body = responses({ background: true, max_output_tokens: 16, tools });
      expect((await tried.ask('/v1/responses', body, { script })).status).toBe(200);
      await eventually(async () => expect(await tried.charged()).toBe(tried.billed()), { timeoutMs: 25_000 });
    },
  },
];
