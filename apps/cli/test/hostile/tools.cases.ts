import { expect } from 'vitest';
import { chat, expectExact, type HostileCase, hard, message, PLENTY, responses } from './hostileCase.ts';

const TOOLS = 'tools that the vendor runs';
const MODELS = 'models named inside a request';
const webSearch = { type: 'web_search_20250305', name: 'web_search' };

/** Tools that run at the vendor, and other models than the request's own. */
export const TOOL_CASES: readonly HostileCase[] = [
  {
    row: TOOLS,
    title: 'each use of a tool is charged, streamed and not',
    async run({ tenant }) {
      const tried = await tenant();
      const tools = [{ type: 'web_search' }, { type: 'code_interpreter', container: { type: 'auto' } }];
      const files = { type: 'file_search', vector_store_ids: ['vs_1'] };
      for (const stream of [false, true]) {
        await tried.ask('/v1/responses', responses({ stream, tools: [...tools, files] }), {
          script: { 'tool-uses': 'web_search=3,code_interpreter=1,file_search=2' },
        });
        await tried.ask('/v1/messages', message({ stream, tools: [webSearch] }), {
          script: { 'tool-uses': 'web_search=4' },
        });
      }
      await expectExact(tried, 4);
    },
  },
  {
    row: TOOLS,
    title: 'images that a tool makes are charged as tokens of the model that makes them',
    async run({ tenant }) {
      const tried = await tenant();
      const tools = [{ type: 'image_generation', model: 'gpt-image-1' }];
      for (const stream of [false, true]) {
        await tried.ask('/v1/responses', responses({ stream, tools }), {
          script: { 'tool-uses': 'image_generation=1', 'image-tool-tokens': '4000' },
        });
      }
      await expectExact(tried, 2);
    },
  },
  {
    row: TOOLS,
    title: 'an advisor is charged as tokens of its model',
    async run({ tenant }) {
      const tried = await tenant();
      const tools = [{ type: 'advisor_20260301', name: 'advisor', model: 'dear', max_uses: 1 }];
      await tried.ask('/v1/messages', message({ tools }), { script: { 'advisor-tokens': '3000' } });
      await expectExact(tried);
    },
  },
  {
    row: TOOLS,
    title: 'hard mode removes tools that nothing bounds, says which, and holds the limit',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      const own = { name: 'weigh', input_schema: { type: 'object' } };
      const script = { 'tool-uses': 'web_search=100' };
      const answer = await tried.ask('/v1/messages', message({ tools: [own, webSearch] }), { script });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('x-svc-dropped')).toContain('web_search');
      const asked = { tools: [{ type: 'web_search' }, { type: 'function', name: 'weigh', parameters: {} }] };
      const other = await tried.ask('/v1/responses', responses(asked), { script });
      expect(other.status).toBe(200);
      expect(other.headers.get('x-svc-dropped')).toContain('web_search');
      expect(tried.entries().map(({ toolUses }) => toolUses)).toEqual([{}, {}]);
      const forced = { tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } };
      const refused = await tried.ask('/v1/responses', responses(forced), { script });
      expect([refused.status, refused.code]).toEqual([400, 'not_allowed_in_hard_mode']);
      await expectExact(tried, 2);
    },
  },
  {
    row: TOOLS,
    title: 'hard mode takes a tool whose uses the request bounds, and holds the limit',
    async run({ tenant }) {
      // Each use may fill the context window again.
      const tried = await tenant(hard(PLENTY));
      const script = { 'tool-uses': 'web_search=100' };
      const bounded = { ...webSearch, max_uses: 2 };
      const answer = await tried.ask('/v1/messages', message({ tools: [bounded] }), { script });
      expect(answer.status).toBe(200);
      expect(tried.entries()[0]?.toolUses).toEqual({ web_search: 2 });
      await expectExact(tried);
      const poor = await tenant(hard(15_000));
      await poor.ask('/v1/messages', message({ tools: [bounded], max_tokens: 10 }), { script });
      expect(poor.billed()).toBeLessThanOrEqual(15_000);
    },
  },
  {
    row: TOOLS,
    title: 'hard mode refuses a search that is switched on by an empty object',
    async run({ tenant }) {
      const tried = await tenant(hard(PLENTY));
      for (const web_search_options of [{}, [], '']) {
        const body = chat('openai/plain', { web_search_options, max_completion_tokens: 16 });
        const refused = await tried.ask('/v1/chat/completions', body, {
          script: { 'tool-uses': 'web_search=1' },
        });
        expect([refused.status, refused.code]).toEqual([400, 'not_allowed_in_hard_mode']);
      }
      expect(tried.entries()).toEqual([]);
    },
  },
  {
    row: MODELS,
    title: 'allowed_models holds for fallbacks, further models and models of tools',
    async run({ tenant }) {
      const tried = await tenant({ allowed_models: ['openai/plain', 'anthropic/plain', 'local/plain'] });
      const image = [{ type: 'image_generation', model: 'gpt-image-1' }];
      const advisor = [{ type: 'advisor_20260301', name: 'advisor', model: 'dear' }];
      for (const [path, body] of [
        ['/v1/messages', message({ fallbacks: [{ model: 'dear' }] })],
        ['/v1/messages', message({ tools: advisor })],
        ['/v1/responses', responses({ tools: image })],
        ['/v1/chat/completions', chat('local/plain', { models: ['plain', 'dear'] })],
      ] as const) {
        const answer = await tried.ask(path, body, { script: { fallback: '0' } });
        expect([path, answer.status]).toEqual([path, 403]);
      }
      expect(tried.entries()).toEqual([]);
      // A property of a tool's schema that is called model names none.
      const schema = { type: 'object', properties: { model: { type: 'string', default: 'dear' } } };
      const own = { tools: [{ name: 'weigh', input_schema: schema }] };
      expect((await tried.ask('/v1/messages', message(own))).status).toBe(200);
    },
  },
  {
    row: MODELS,
    title: 'the model in the answer sets the price',
    async run({ tenant }) {
      const tried = await tenant();
      const script = { fallback: '1' };
      for (const stream of [false, true]) {
        await tried.ask('/v1/messages', message({ stream, fallbacks: [{ model: 'dear' }] }), { script });
        await tried.ask('/v1/chat/completions', chat('local/plain', { stream, models: ['dear'] }), {
          script,
        });
      }
      await expectExact(tried, 4);
    },
  },
  {
    row: MODELS,
    title: 'hard mode holds when a dearer model answers',
    async run({ tenant }) {
      const limit = 60_000;
      const tried = await tenant(hard(limit));
      const script = { fallback: '1', 'output-tokens': '300' };
      for (let at = 0; at < 8; at++) {
        const limits = { max_tokens: 300 };
        await tried.ask('/v1/messages', message({ ...limits, fallbacks: [{ model: 'dear' }] }), { script });
        const body = chat('local/plain', { ...limits, models: ['dear'] });
        await tried.ask('/v1/chat/completions', body, { script });
      }
      expect(tried.billed()).toBeLessThanOrEqual(limit);
    },
  },
];
