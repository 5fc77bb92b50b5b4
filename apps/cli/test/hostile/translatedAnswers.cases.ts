import { expect } from 'vitest';
import type { HostileCase } from './hostileCase.ts';
import { type OddReply, type OddVendor, startOddVendor } from './oddVendor.ts';
import { growthDuring } from './product.ts';
import type { Tenant } from './scene.ts';

type Json = Record<string, unknown>;

const MIB = 2 ** 20;
/** Longer than any answer here may take, and much shorter than a time-out of the service. */
const PATIENCE_MS = 15_000;

const chunk = (delta: unknown, more: Json = {}) => ({ id: 'c', choices: [{ index: 0, delta, ...more }] });
const call = (index: unknown, fields: Json) => chunk({ tool_calls: [{ index, ...fields }] });
const STOP = chunk({}, { finish_reason: 'stop' });
const start = (index: unknown, block: unknown) => ({
  type: 'content_block_start',
  index,
  content_block: block,
});
const delta = (index: unknown, fields: unknown) => ({ type: 'content_block_delta', index, delta: fields });
const text = (words: string) => ({ type: 'text_delta', text: words });
const BEGIN = { type: 'message_start', message: { id: 'm', usage: { input_tokens: 3, output_tokens: 1 } } };
const END = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } },
  { type: 'message_stop' },
];
const tool = (id: unknown) => ({ type: 'tool_use', id, name: 'weigh', input: {} });

/** Values in the place of every member of an event. */
const ODD_VALUES = [null, -1, 1e300, 'x', '', true, [], [null], {}, { a: null }] as const;

/** Streams that are whole and make no sense, by the dialect of the vendor. */
const ODD_STREAMS: Readonly<Record<'openai' | 'anthropic', readonly (readonly unknown[])[]>> = {
  openai: [
    [],
    ['[DONE]'],
    ['{', 'null', '[]', '1', '"x"', STOP, '[DONE]'],
    [{ object: 'unheard.of', x: 1 }, { choices: [] }, STOP, '[DONE]'],
    [STOP, '[DONE]', chunk({ content: 'late' }), STOP, '[DONE]'],
    [call(0, { function: { arguments: '{}' } }), STOP, '[DONE]'],
    [call(1e9, { id: 'a', function: { name: 'weigh', arguments: '{' } }), STOP, '[DONE]'],
    [call(-1, { id: 'a', function: { name: 'weigh' } }), call('0', { id: 'b' }), STOP, '[DONE]'],
    [call(0, { id: '\ud800', function: { name: '', arguments: '\u0000' } }), STOP, '[DONE]'],
    ...ODD_VALUES.flatMap((value) => [
      [value, STOP, '[DONE]'],
      [{ choices: value }, STOP, '[DONE]'],
      [chunk(value), STOP, '[DONE]'],
      [chunk({ content: value, reasoning_content: value, tool_calls: value }), STOP, '[DONE]'],
      [call(value, { id: value, function: value }), STOP, '[DONE]'],
      [chunk({}, { finish_reason: value }), { usage: value, choices: [] }, '[DONE]'],
      [{ error: value }, '[DONE]'],
    ]),
  ],
  anthropic: [
    [],
    [END[1]],
    [BEGIN, { type: 'unheard_of' }, { type: 'ping' }, ...END],
    [BEGIN, ...END, ...END],
    [BEGIN, delta(7, text('x')), { type: 'content_block_stop', index: 9 }, ...END],
    [BEGIN, start(0, { type: 'text', text: '' }), start(0, tool('a')), delta(0, text('x')), ...END],
    [BEGIN, start(0, tool('a')), start(1, tool('a')), ...END],
    [BEGIN, start(0, { type: 'unheard_of' }), delta(0, { type: 'unheard_of_delta' }), ...END],
    [BEGIN, start(0, tool('a')), delta(0, text('x')), delta(0, { type: 'input_json_delta' }), ...END],
    ...ODD_VALUES.flatMap((value) => [
      [value, BEGIN, ...END],
      [{ type: 'message_start', message: value }, ...END],
      [BEGIN, start(value, value), delta(value, value), ...END],
      [BEGIN, start(0, { type: 'tool_use', id: value, name: value, input: value }), ...END],
      [BEGIN, { type: 'message_delta', delta: value, usage: value }, END[1]],
      [BEGIN, { type: 'error', error: value }],
    ]),
  ],
};

function streamOf(events: readonly unknown[], isCut = false): OddReply {
  const pieces = events.map(
    (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
  );
  return { type: 'text/event-stream', pieces, isCut };
}

const DOCUMENTS = [
  '',
  '{',
  '[]',
  'null',
  '<html>',
  '{"choices":[{}]}',
  '{"choices":[{"message":{"tool_calls":[{}]}}]}',
  '{"content":[{"type":"tool_use"}],"usage":7}',
  '{"content":"x","choices":"x"}',
  `{"content":${'['.repeat(50_000)}`,
];

/** How callers of each dialect ask, and how their streams end well. */
const CALLERS: readonly {
  readonly path: (model: string, stream: boolean) => string;
  readonly body: Json;
  readonly end: RegExp;
}[] = [
  {
    path: () => '/v1/messages',
    body: { max_tokens: 99, messages: [{ role: 'user', content: 'x' }] },
    end: /message_stop/,
  },
  {
    path: () => '/v1/responses',
    body: { input: 'x', store: false },
    end: /response\.(completed|incomplete)/,
  },
  {
    path: (model, stream) =>
      `/v1beta/models/${model}:${stream ? 'streamG' : 'g'}enerateContent${stream ? '?alt=sse' : ''}`,
    body: { contents: [{ parts: [{ text: 'x' }] }] },
    end: /"finishReason"/,
  },
  {
    path: () => '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'x' }] },
    end: /\[DONE\]/,
  },
];

/** What a vendor of each dialect takes as it is. */
const PASSES = { openai: /completions|responses/, anthropic: /messages/ } as const;

async function askAll(tried: Tenant, { model }: OddVendor, stream: boolean) {
  const asked = CALLERS.map(async ({ path, body, end }) => {
    const at = path(model, stream);
    const named = at.startsWith('/v1beta') ? body : { ...body, model, ...(stream && { stream }) };
    const answer = await tried.ask(at, named, { signal: AbortSignal.timeout(PATIENCE_MS) });
    return { at, status: answer.status, text: answer.text, isWell: end.test(answer.text) };
  });
  return await Promise.all(asked);
}

export const TRANSLATED_ANSWERS: readonly HostileCase[] = (['openai', 'anthropic'] as const).flatMap(
  (dialect): HostileCase[] => [
    {
      row: 'a vendor that makes no sense',
      title: `${dialect}: odd events and documents are no failure of the service, and never hang`,
      async run(scene) {
        const tried = await scene.tenant();
        const odd = await startOddVendor(scene, dialect);
        try {
          for (const events of ODD_STREAMS[dialect]) {
            odd.reply = streamOf(events);
            for (const { at, status } of await askAll(tried, odd, true))
              expect([at, JSON.stringify(events), status]).not.toEqual([at, JSON.stringify(events), 500]);
          }
          for (const document of DOCUMENTS) {
            odd.reply = { type: 'application/json', pieces: [document] };
            for (const { at, status } of await askAll(tried, odd, false))
              expect([at, document.slice(0, 80), status]).not.toEqual([at, document.slice(0, 80), 500]);
          }
          const count = CALLERS.length * (ODD_STREAMS[dialect].length + DOCUMENTS.length);
          expect((await tried.rows(Math.min(500, count))).length).toBeGreaterThan(0);
        } finally {
          await odd.close();
        }
      },
    },
    {
      row: 'a stream that is cut',
      title: `${dialect}: is an error in the dialect of the caller, never a normal end`,
      async run(scene) {
        const tried = await scene.tenant();
        const odd = await startOddVendor(scene, dialect);
        const [first, second] =
          dialect === 'openai'
            ? [
                chunk({ content: 'Forty ' }),
                call(0, { id: 'a', function: { name: 'weigh', arguments: '{"a' } }),
              ]
            : [[BEGIN, start(0, { type: 'text', text: '' }), delta(0, text('Forty '))], start(1, tool('a'))];
        try {
          const begun = [first].flat();
          for (const events of [begun, [...begun, second]]) {
            for (const isCut of [true, false]) {
              odd.reply = streamOf(events, isCut);
              const answers = await askAll(tried, odd, true);
              const translated = answers.filter(({ at }) => !PASSES[dialect].test(at));
              for (const { at, text: got, isWell } of translated) {
                expect([at, isCut, isWell, /"error"/.test(got), got.slice(-300)]).toEqual([
                  at,
                  isCut,
                  false,
                  true,
                  expect.anything(),
                ]);
              }
            }
          }
        } finally {
          await odd.close();
        }
      },
    },
  ],
);

const CALLS = 64;
const PIECE = 'weigh '.repeat(200);
const ROUNDS = 200;

/** Calls at once whose arguments come in turns, 15 MB in all. */
function* interleaved() {
  const line = (event: unknown) => `data: ${JSON.stringify(event)}\n\n`;
  for (let at = 0; at < CALLS; at++)
    yield line(
      call(at, { id: `call_${at}`, type: 'function', function: { name: 'weigh', arguments: '{"a":"' } }),
    );
  for (let round = 0; round < ROUNDS; round++) {
    for (let at = 0; at < CALLS; at++) yield line(call(at, { function: { arguments: PIECE } }));
  }
  for (let at = 0; at < CALLS; at++) yield line(call(at, { function: { arguments: '"}' } }));
  yield line(chunk({}, { finish_reason: 'tool_calls' }));
  yield 'data: [DONE]\n\n';
}

/** One at a time: memory is measured. */
export const TRANSLATION_MEMORY: readonly HostileCase[] = [
  {
    row: 'arguments that interleave',
    title: '64 calls at once of 15 MB take little more than their bytes, and come whole or not at all',
    async run(scene) {
      const tried = await scene.tenant();
      const odd = await startOddVendor(scene, 'openai');
      try {
        odd.reply = { type: 'text/event-stream', pieces: { [Symbol.iterator]: interleaved } };
        const body = {
          model: odd.model,
          max_tokens: 99,
          messages: [{ role: 'user', content: 'x' }],
          stream: true,
        };
        let got = '';
        const growth = await growthDuring(scene.product, 'inference', async () => {
          const signal = AbortSignal.timeout(4 * PATIENCE_MS);
          got = (await tried.ask('/v1/messages', body, { signal })).text;
        });
        expect(growth).toBeLessThan(256 * MIB);
        const whole = got.split(JSON.stringify(PIECE).slice(1, -1)).length - 1 === CALLS * ROUNDS;
        expect([whole, got.includes('message_stop')]).toEqual([whole, whole]);
        expect(whole || got.includes('"error"')).toBe(true);
      } finally {
        await odd.close();
      }
    },
  },
  {
    row: 'parts, tools and schemas without end',
    title:
      '100,000 of them, or as many levels, are refused or translated within seconds and a bounded memory',
    async run(scene) {
      const tried = await scene.tenant();
      const many = (item: string) => `[${`${item},`.repeat(100_000)}${item}]`;
      const deep = (open: string, close: string) => open.repeat(100_000) + close.repeat(100_000);
      const messages = (content: string, more = '') =>
        `{"model":"openai/plain","max_tokens":9,"messages":[{"role":"user","content":${content}}]${more}}`;
      const bodies: readonly string[] = [
        messages(many('{"type":"text","text":"x"}')),
        messages(many('{"type":"unheard_of","x":1}')),
        messages('"x"', `,"tools":${many('{"name":"a","input_schema":{"type":"object"}}')}`),
        messages('"x"', `,"tools":[{"name":"a","input_schema":${deep('{"a":', '}').replace('}', '1}')}}]`),
        messages(deep('[{"type":"tool_result","tool_use_id":"a","content":', '}]').replace('}', '"x"}')),
        messages('"x"', `,"unheard_of":${deep('[', ']')}`),
      ];
      for (const [at, body] of bodies.entries()) {
        for (const model of ['openai/plain', 'gemini/plain', 'local/plain']) {
          const began = performance.now();
          let status = 0;
          const growth = await growthDuring(scene.product, 'inference', async () => {
            const asked = body.replace('openai/plain', model);
            status = (await tried.ask('/v1/messages', asked, { signal: AbortSignal.timeout(PATIENCE_MS) }))
              .status;
          });
          const isRefused = status >= 400 && status < 500;
          expect([at, model, status, isRefused || status === 200]).toEqual([at, model, status, true]);
          expect([at, growth < 256 * MIB, performance.now() - began < PATIENCE_MS]).toEqual([at, true, true]);
        }
      }
    },
  },
];
