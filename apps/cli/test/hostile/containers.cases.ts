import { expect } from 'vitest';
import {
  expectCovered,
  expectExact,
  type HostileCase,
  hard,
  message,
  PLENTY,
  responses,
} from './hostileCase.ts';

const ROW = 'what a tool is asked for';
const code = (container: unknown) => ({ type: 'code_interpreter', container });
const shell = (environment: object) => ({ type: 'shell', environment });
const auto = (memory_limit?: string) => ({ type: 'auto', ...(memory_limit && { memory_limit }) });
const RUNS = { 'tool-uses': 'code_interpreter=3,shell=3' };
const runCode = { type: 'code_execution_20250825', name: 'code_execution' };
const CODE_USES = { 'tool-uses': 'code_execution=3,web_search=1' };

/** Tools that cost by what is inside them. */
export const CONTAINERS: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'a container is charged by its memory, streamed and not, wherever its tool is',
    async run({ tenant }) {
      for (const size of [undefined, '1g', '4g', '16g', '64g']) {
        const tried = await tenant();
        const tools = [code(auto(size)), shell({ ...auto(size), type: 'container_auto' })];
        for (const stream of [false, true]) {
          await tried.ask('/v1/responses', responses({ stream, tools }), { script: RUNS });
          const item = { type: 'additional_tools', role: 'developer', tools };
          const input = [item, { role: 'user', content: 'weigh' }];
          await tried.ask('/v1/responses', responses({ stream, input }), { script: RUNS });
        }
        await expectExact(tried, 4);
      }
    },
  },
  {
    row: ROW,
    title: 'of containers of several sizes, or of an id, the dearest is charged',
    async run({ tenant }) {
      const tried = await tenant();
      const escaped = JSON.stringify(responses({ tools: [code(auto('64g'))] })).replace(
        'memory_limit',
        'memory\\u005flimit',
      );
      const bodies = [
        responses({ tools: [code('cntr_64g_1')] }),
        responses({ tools: [shell({ type: 'container_reference', container_id: 'cntr_64g_2' })] }),
        responses({ tools: [code(auto('1g')), code(auto('64g'))] }),
        escaped.replace('code_interpreter', 'code\\u005finterpreter'),
      ];
      for (const body of bodies) await tried.ask('/v1/responses', body, { script: RUNS });
      await expectCovered(tried, bodies.length);
    },
  },
  {
    row: ROW,
    title: 'a container that an earlier response left is charged at its size, whatever size is asked for',
    async run({ tenant }) {
      const tried = await tenant();
      const ask = async (fields: object) => {
        const { status, json } = await tried.ask('/v1/responses', responses(fields), { script: RUNS });
        expect(status).toBe(200);
        return json as { id: string; output: { type: string }[] };
      };
      const small = [code(auto('1g'))];
      const first = await ask({ tools: [code(auto('16g'))] });
      const second = await ask({ tools: small, previous_response_id: first.id });
      // The container outlives a response without tools, and a smaller one takes its place nowhere.
      const third = await ask({ tools: [], previous_response_id: second.id });
      await ask({ tools: small, previous_response_id: third.id });
      const called = first.output.filter(({ type }) => type === 'code_interpreter_call');
      await ask({ tools: small, input: [...called, { role: 'user', content: 'weigh' }] });
      await expectExact(tried, 5);

      const limit = 8_000_000;
      const held = await tenant(hard(limit));
      const bounded = { model: 'openai/small', max_tool_calls: 3, max_output_tokens: 16 };
      const asked = (fields: object) =>
        held.ask('/v1/responses', responses({ ...bounded, ...fields }), {
          script: { 'tool-uses': 'code_interpreter=3' },
        });
      const { json } = await asked({ tools: [code(auto('64g'))] });
      const items = [...(json.output as object[]), { role: 'user', content: 'weigh' }];
      for (const reused of [{ previous_response_id: json.id }, { input: items }]) {
        const { status } = await asked({ tools: small, ...reused });
        expect([400, 429]).toContain(status);
      }
      expect(held.billed()).toBeLessThanOrEqual(limit);
    },
  },
  {
    row: ROW,
    title: 'a hard limit reserves the container that is asked for, and holds',
    async run({ tenant }) {
      const limit = 300_000;
      for (const tool of [
        code(auto('64g')),
        code('cntr_64g_1'),
        shell({ type: 'container_auto', memory_limit: '64g' }),
        shell({ type: 'container_reference', container_id: 'cntr_64g_1' }),
      ]) {
        const tried = await tenant(hard(limit));
        const asked = { model: 'openai/small', tools: [tool], max_tool_calls: 5, max_output_tokens: 16 };
        const script = { 'tool-uses': 'code_interpreter=5,shell=5' };
        const refused = await tried.ask('/v1/responses', responses(asked), { script });
        expect(tried.billed()).toBeLessThanOrEqual(limit);
        expect([400, 404, 429]).toContain(refused.status);
      }
      const rich = await tenant(hard(PLENTY));
      const tools = [code(auto('4g')), shell({ type: 'container_auto', memory_limit: '16g' })];
      const body = responses({ tools, max_tool_calls: 4, max_output_tokens: 16 });
      expect((await rich.ask('/v1/responses', body, { script: RUNS })).status).toBe(200);
      await expectExact(rich);
      for (const unknown of [code(auto('2g')), code({ ...auto(), cpus: 64 })]) {
        const odd = responses({ tools: [unknown], max_tool_calls: 1, max_output_tokens: 16 });
        const answer = await rich.ask('/v1/responses', odd);
        expect([answer.status, answer.code]).toEqual([400, 'not_allowed_in_hard_mode']);
      }
    },
  },
  {
    row: ROW,
    title: 'code that a vendor runs for a message is charged, and is free beside what filters by it',
    async run({ tenant }) {
      for (const stream of [false, true]) {
        const tried = await tenant();
        await tried.ask('/v1/messages', message({ stream, tools: [runCode] }), { script: CODE_USES });
        const search = { type: 'web_search_20260209', name: 'web_search' };
        await tried.ask('/v1/messages', message({ stream, tools: [runCode, search] }), { script: CODE_USES });
        await expectExact(tried, 2);
      }
    },
  },
];
