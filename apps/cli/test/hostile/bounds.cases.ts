import { expect } from 'vitest';
import { chat, type HostileCase, message, responses } from './hostileCase.ts';
import { cpuSeconds, growthDuring } from './product.ts';
import type { Answer, Scene, Tenant } from './scene.ts';

const MIB = 2 ** 20;
const LARGE = 30 * MIB;
/** What a process grows by when it begins to work. */
const SLACK = 128 * MIB;
/** Of processor time. Who waits for an answer meanwhile waits no longer. */
const MOST_SECONDS = 1.5;

/** A body with a field whose value is too long to be made from an object. */
const bodyWith = (base: object, field: string, value: string) =>
  `${JSON.stringify(base).slice(0, -1)},"${field}":${value}}`;
const objects = (bytes = LARGE) => `[${'{},'.repeat(bytes / 3)}{}]`;
const ids = (count: number) => `[${Array.from({ length: count }, (_, at) => `"f${at}"`).join()}]`;

/** The code of a refusal, in the shape of its dialect. */
function codeOf({ code, json, text }: Answer): string {
  const details = ((json.error ?? {}) as { details?: { metadata?: { code?: string } }[] }).details;
  return details?.[0]?.metadata?.code ?? (code === 'invalid_request_error' ? text : code);
}

/** A request is refused for a field: in time, within memory, and nothing of it is spent or held. */
async function expectRefused(scene: Scene, path: string, body: string, field: string): Promise<void> {
  const { product, vendors } = scene;
  const tried = await scene.tenant({ max_parallel: 1 });
  const began = await cpuSeconds(product.pids.inference);
  let answer: Answer | undefined;
  const growth = await growthDuring(product, 'inference', async () => {
    answer = await tried.ask(path, body);
  });
  const seconds = (await cpuSeconds(product.pids.inference)) - began;
  expect([path, field, answer?.status, answer && codeOf(answer)]).toEqual([
    path,
    field,
    400,
    expect.stringContaining('field_out_of_bounds'),
  ]);
  expect(answer?.text).toContain(field);
  expect(answer?.text).toMatch(/Accepted: /);
  expect([field, seconds, seconds < MOST_SECONDS]).toEqual([field, seconds, true]);
  expect([field, growth, growth < 1.5 * body.length + SLACK]).toEqual([field, growth, true]);
  const sent = vendors
    .flatMap(({ requests }) => requests)
    .filter(({ headers }) => headers['x-mark'] === tried.mark);
  expect(sent).toEqual([]);
  // The one slot is free again, and only what was served is charged.
  expect((await tried.ask('/v1/chat/completions', chat('openai/plain'))).status).toBe(200);
  expect(await tried.charged()).toBe(tried.billed());
}

const GEMINI = '/v1beta/models/gemini/plain';
const CONTENT = { contents: [{ parts: [{ text: 'weigh' }] }] };

/** Fields that one request made into gigabytes, or into seconds. One at a time: memory is measured. */
export const BOUNDS: readonly HostileCase[] = [
  {
    row: 'a field is read by kind and bound',
    title: '30 MB in a field that is read are refused in each dialect before they are parsed',
    async run(scene) {
      const large = objects();
      const openai = chat('openai/plain');
      for (const [path, base, field] of [
        ['/v1/chat/completions', openai, 'service_tier'],
        ['/v1/chat/completions', openai, 'n'],
        ['/v1/responses', responses(), 'prompt_cache_key'],
        ['/v1/messages', message(), 'service_tier'],
      ] as const) {
        await expectRefused(scene, path, bodyWith(base, field, large), field);
      }
      const config = bodyWith(CONTENT, 'generationConfig', `{"candidateCount":${large}}`);
      await expectRefused(scene, `${GEMINI}:generateContent`, config, 'generationConfig.candidateCount');
    },
  },
  {
    row: 'a field is read by kind and bound',
    title: 'a name of 30 MB is refused before it is looked up',
    async run(scene) {
      const body = `{"messages":[],"model":"${'x'.repeat(LARGE)}"}`;
      await expectRefused(scene, '/v1/chat/completions', body, 'model');
    },
  },
  {
    row: 'a field is read by kind and bound',
    title: 'settings that are translated take no more than their bytes',
    async run({ product, tenant }) {
      const tried = await tenant();
      const base = { ...message(), model: 'local/plain' };
      const body = bodyWith(base, 'thinking', `{"type":"enabled","budget_tokens":${objects(9 * MIB)}}`);
      const began = await cpuSeconds(product.pids.inference);
      const growth = await growthDuring(product, 'inference', async () => {
        expect((await tried.ask('/v1/messages', body)).status).toBe(400);
      });
      expect((await cpuSeconds(product.pids.inference)) - began).toBeLessThan(MOST_SECONDS);
      expect(growth).toBeLessThan(1.5 * body.length + SLACK);
      expect(tried.entries()).toEqual([]);
    },
  },
  {
    row: 'a list is counted while it is read',
    title: 'millions of ids, models and items of a batch are refused at the bound of their list',
    async run(scene) {
      const many = ids(3_000_000);
      const shell = `{"type":"shell","environment":{"type":"container_auto","file_ids":${many}}}`;
      const search = `{"type":"file_search","vector_store_ids":${many}}`;
      await expectRefused(scene, '/v1/responses', bodyWith(responses(), 'tools', `[${shell}]`), 'file_ids');
      await expectRefused(
        scene,
        '/v1/responses',
        bodyWith(responses(), 'tools', `[${search}]`),
        'vector_store_ids',
      );
      const names = `[${'"a",'.repeat(7_500_000)}"a"]`;
      await expectRefused(
        scene,
        '/v1/chat/completions',
        bodyWith(chat('openai/plain'), 'models', names),
        'models',
      );
      await expectRefused(scene, '/v1/messages', bodyWith(message(), 'fallbacks', names), 'fallbacks');
      await expectRefused(scene, `${GEMINI}:batchEmbedContents`, `{"requests":${objects()}}`, 'requests');
    },
  },
  {
    row: 'work is bounded by bytes',
    title: 'a name that many wildcards almost match is refused at once',
    async run({ product, tenant }) {
      const tried = await tenant({ allowed_models: ['openai/plain', 'openai/*a*a*ab'] });
      const name = `openai/${'a'.repeat(2_500)}`;
      const began = await cpuSeconds(product.pids.inference);
      const body = { ...chat('openai/plain'), models: [name] };
      const { status } = await tried.ask('/v1/chat/completions', body);
      expect((await cpuSeconds(product.pids.inference)) - began).toBeLessThan(MOST_SECONDS);
      expect([400, 403]).toContain(status);
      // Within the bound of a name, too.
      const short = { ...body, models: [name.slice(0, 512)] };
      expect((await tried.ask('/v1/chat/completions', short)).status).toBe(403);
    },
  },
  {
    row: 'unpacked bytes are counted',
    title: '40 reads of a stored response that unpacks to 6 MB stay within the memory budget',
    run: readStoredAtOnce,
  },
];

/** The conversation is stored here, since its vendor stores none. */
async function readStoredAtOnce({ product, tenant }: Scene): Promise<void> {
  const tried: Tenant = await tenant();
  const input = 'weigh '.repeat((6 * MIB) / 6);
  const made = await tried.ask('/v1/responses', { model: 'anthropic/plain', input });
  expect(made.status).toBe(200);
  const path = `/v1/responses/${String(made.json.id)}`;
  const began = await cpuSeconds(product.pids.inference);
  let answers: Answer[] = [];
  const growth = await growthDuring(product, 'inference', async () => {
    answers = await Promise.all(
      Array.from({ length: 40 }, () => tried.ask(`${path}/input_items`, undefined)),
    );
  });
  const statuses = new Set(answers.map(({ status }) => status));
  expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
  for (const answer of answers.filter(({ status }) => status === 503)) {
    expect(answer.code).toBe('memory_budget_exhausted');
  }
  // The budget of this process is 96 MiB.
  expect([growth, growth < 2 * 96 * MIB + SLACK]).toEqual([growth, true]);
  expect((await cpuSeconds(product.pids.inference)) - began).toBeLessThan(10);
  expect((await tried.ask(path, undefined)).status).toBe(200);
}
