import { expect } from 'vitest';
import type { HostileCase } from './hostileCase.ts';
import { BEGUN, call, chunk, DOCUMENTS, ODD_STREAMS, STOP } from './oddStreams.ts';
import { type OddReply, type OddVendor, startOddVendor, type VendorFormat } from './oddVendor.ts';
import { cpuSeconds, growthDuring } from './product.ts';
import type { Tenant } from './scene.ts';

type Json = Record<string, unknown>;

const MIB = 2 ** 20;
/** Of the processor, for one request. In embedded mode, the other apps use some of it. */
const MAX_CPU_SECONDS = 15;
/** How an answer ends that a time-out of the service ended. */
const TIMED_OUT = /upstream_timeout|timeout_error|DEADLINE_EXCEEDED/;

function streamOf(events: readonly unknown[], isCut = false): OddReply {
  const pieces = events.map(
    (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
  );
  return { type: 'text/event-stream', pieces, isCut };
}

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

/** What a vendor of each format takes as it is. */
const PASSES: Readonly<Record<VendorFormat, RegExp>> = {
  chat: /completions|responses/,
  messages: /messages/,
  responses: /completions|responses/,
  gemini: /completions|v1beta/,
};

async function askAll(tried: Tenant, { model }: OddVendor, stream: boolean) {
  const asked = CALLERS.map(async ({ path, body, end }) => {
    const at = path(model, stream);
    const named = at.startsWith('/v1beta') ? body : { ...body, model, ...(stream && { stream }) };
    const answer = await tried.ask(at, named);
    expect([at, answer.text.slice(-300)]).not.toEqual([at, expect.stringMatching(TIMED_OUT)]);
    return { at, status: answer.status, text: answer.text, isWell: end.test(answer.text) };
  });
  return await Promise.all(asked);
}

const FORMATS = Object.keys(PASSES) as readonly VendorFormat[];

export const TRANSLATED_ANSWERS: readonly HostileCase[] = FORMATS.flatMap((format): HostileCase[] => [
  {
    row: 'a vendor that makes no sense',
    title: `${format}: odd events and documents are no failure of the service, and never hang`,
    async run(scene) {
      const tried = await scene.tenant();
      const odd = await startOddVendor(scene, format);
      try {
        for (const events of ODD_STREAMS[format]) {
          odd.reply = streamOf(events);
          for (const { at, status } of await askAll(tried, odd, true))
            expect([at, JSON.stringify(events), status]).not.toEqual([at, JSON.stringify(events), 500]);
        }
        for (const document of DOCUMENTS) {
          odd.reply = { type: 'application/json', pieces: [document] };
          for (const { at, status } of await askAll(tried, odd, false))
            expect([at, document.slice(0, 80), status]).not.toEqual([at, document.slice(0, 80), 500]);
        }
        const count = CALLERS.length * (ODD_STREAMS[format].length + DOCUMENTS.length);
        expect((await tried.rows(Math.min(500, count))).length).toBeGreaterThan(0);
      } finally {
        await odd.close();
      }
    },
  },
  {
    row: 'a stream that is cut',
    title: `${format}: is an error in the dialect of the caller, never a normal end`,
    async run(scene) {
      const tried = await scene.tenant();
      const odd = await startOddVendor(scene, format);
      try {
        for (const events of BEGUN[format]) {
          for (const isCut of [true, false]) {
            odd.reply = streamOf(events, isCut);
            const answers = await askAll(tried, odd, true);
            const translated = answers.filter(({ at }) => !PASSES[format].test(at));
            expect(translated.length).toBeGreaterThan(1);
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
]);

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

const CITATIONS = 10_000;
const TITLE = 'weigh '.repeat(170);

/** An answer of two words, and 10 MB of sources for them. */
const cited = [
  chunk({ content: 'Forty tonnes' }),
  chunk({
    annotations: Array.from({ length: CITATIONS }, (_, at) => ({
      type: 'url_citation',
      url_citation: { url: `https://example.com/${at}`, title: TITLE, start_index: at % 12, end_index: 12 },
    })),
  }),
  STOP,
  '[DONE]',
];

/** One at a time: memory is measured. */
export const TRANSLATION_MEMORY: readonly HostileCase[] = [
  {
    row: 'arguments that interleave',
    title: '64 calls at once of 15 MB take little more than their bytes, and come whole or not at all',
    async run(scene) {
      const tried = await scene.tenant();
      const odd = await startOddVendor(scene, 'chat');
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
          got = (await tried.ask('/v1/messages', body)).text;
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
    row: 'citations without end',
    title: 'of 10 MB of them, the first reach the caller, in a bounded memory',
    async run(scene) {
      const tried = await scene.tenant();
      const odd = await startOddVendor(scene, 'chat');
      try {
        odd.reply = streamOf(cited);
        const answers: { readonly at: string; readonly text: string; readonly isWell: boolean }[] = [];
        const growth = await growthDuring(scene.product, 'inference', async () => {
          answers.push(...(await askAll(tried, odd, true)));
        });
        expect(growth).toBeLessThan(256 * MIB);
        for (const { at, text: got, isWell } of answers.filter((one) => !PASSES.chat.test(one.at))) {
          expect([at, isWell, got.includes('https://example.com/0')]).toEqual([at, true, true]);
          expect([at, got.length < 8 * MIB, got.includes('https://example.com/9999"')]).toEqual([
            at,
            true,
            false,
          ]);
        }
      } finally {
        await odd.close();
      }
    },
  },
  {
    row: 'parts, tools and schemas without end',
    title:
      '100,000 of them, or as many levels, are refused or translated within seconds of the processor and a bounded memory',
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
          const { inference } = scene.product.pids;
          const before = await cpuSeconds(inference);
          let status = 0;
          const growth = await growthDuring(scene.product, 'inference', async () => {
            const asked = body.replace('openai/plain', model);
            status = (await tried.ask('/v1/messages', asked)).status;
          });
          const isRefused = status >= 400 && status < 500;
          expect([at, model, status, isRefused || status === 200]).toEqual([at, model, status, true]);
          const seconds = (await cpuSeconds(inference)) - before;
          expect([at, growth < 256 * MIB, seconds < MAX_CPU_SECONDS]).toEqual([at, true, true]);
        }
      }
    },
  },
];
