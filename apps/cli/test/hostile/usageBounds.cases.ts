import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { chat, type HostileCase, hard } from './hostileCase.ts';
import { type OddReply, startOddVendor, type VendorFormat } from './oddVendor.ts';
import { operate } from './product.ts';
import type { Scene, Tenant } from './scene.ts';

type Json = Record<string, unknown>;

/** More than any model can have used, and than any column holds. */
const ABSURD = 2 ** 47;
const OTHERS = 12;

/** What a vendor of each format says that was used: as a document, and at the end of a stream. */
const SAYS: Readonly<Record<VendorFormat, (tokens: number) => { document: Json; events: readonly Json[] }>> =
  {
    chat: (tokens) => {
      const usage = { prompt_tokens: tokens, completion_tokens: tokens, total_tokens: 2 * tokens };
      const message = { role: 'assistant', content: 'x' };
      return {
        document: {
          id: 'c',
          object: 'chat.completion',
          choices: [{ index: 0, finish_reason: 'stop', message }],
          usage,
        },
        events: [
          { id: 'c', choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }] },
          { id: 'c', choices: [], usage },
        ],
      };
    },
    messages: (tokens) => {
      const usage = { input_tokens: tokens, output_tokens: tokens };
      return {
        document: {
          id: 'm',
          type: 'message',
          role: 'assistant',
          content: [{ type: 'text', text: 'x' }],
          stop_reason: 'end_turn',
          usage,
        },
        events: [
          { type: 'message_start', message: { id: 'm', usage } },
          { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: tokens } },
          { type: 'message_stop' },
        ],
      };
    },
    responses: (tokens) => {
      const usage = { input_tokens: tokens, output_tokens: tokens, total_tokens: 2 * tokens };
      const response = { id: 'resp_odd', object: 'response', status: 'completed', output: [], usage };
      return { document: response, events: [{ type: 'response.completed', response }] };
    },
    gemini: (tokens) => {
      const usageMetadata = {
        promptTokenCount: tokens,
        candidatesTokenCount: tokens,
        totalTokenCount: 2 * tokens,
      };
      const document = {
        candidates: [{ content: { role: 'model', parts: [{ text: 'x' }] }, finishReason: 'STOP' }],
        usageMetadata,
      };
      return { document, events: [document] };
    },
  };

/** How its own dialect is asked. */
const ASKS: Readonly<Record<VendorFormat, (model: string, stream: boolean) => [path: string, body: Json]>> = {
  chat: (model, stream) => ['/v1/chat/completions', chat(model, { stream, max_tokens: 9 })],
  messages: (model, stream) => ['/v1/messages', { ...chat(model), stream, max_tokens: 9 }],
  responses: (model, stream) => ['/v1/responses', { model, input: 'weigh', stream, max_output_tokens: 9 }],
  gemini: (model, stream) => [
    `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    { contents: [{ role: 'user', parts: [{ text: 'weigh' }] }], generationConfig: { maxOutputTokens: 9 } },
  ],
};

export const USAGE_BOUNDS: readonly HostileCase[] = [
  ...(Object.keys(SAYS) as VendorFormat[]).map(
    (format): HostileCase => ({
      row: 'a vendor that reports 2^47 tokens',
      title: `${format}: goes to quarantine, and everyone else's usage is in the ledger`,
      run: (scene) => absurdUsageIsQuarantined(scene, format),
    }),
  ),
  {
    row: 'a vendor that reports 2^47 tokens',
    title: 'the reservation stays charged until an operator decides',
    run: reservationStaysCharged,
  },
];

async function absurdUsageIsQuarantined(scene: Scene, format: VendorFormat): Promise<void> {
  const [victim, other] = [await scene.tenant(), await scene.tenant()];
  const odd = await startOddVendor(scene, format);
  try {
    for (const stream of [false, true]) {
      odd.reply = replyOf(format, stream, ABSURD);
      const [path, body] = ASKS[format](odd.model, stream);
      expect((await victim.ask(path, body)).status).toBe(200);
    }
    const asked = Array.from({ length: OTHERS }, () =>
      other.ask('/v1/chat/completions', chat('openai/plain')),
    );
    for (const { status } of await Promise.all(asked)) expect(status).toBe(200);
    await eventually(async () => expect(await held(scene, victim)).toHaveLength(2), {
      intervalMs: 50,
    });
    for (const { reason } of await held(scene, victim))
      expect(reason).toMatch(/above 1000000000|exceeds one million dollars/);
    expect(await other.rows(OTHERS)).toHaveLength(OTHERS);
    expect(await other.charged(OTHERS)).toBe(other.billed());
  } finally {
    await odd.close();
  }
}

/** The first request uses up most of the budget, so there is no room for a second one. */
async function reservationStaysCharged(scene: Scene): Promise<void> {
  const odd = await startOddVendor(scene, 'chat');
  const tried = await scene.tenant(hard(12_000));
  try {
    odd.reply = replyOf('chat', false, ABSURD);
    const ask = () => tried.ask('/v1/chat/completions', chat(odd.model, { max_tokens: 9_000 }));
    expect((await ask()).status).toBe(200);
    await eventually(async () => expect(await held(scene, tried)).toHaveLength(1), {
      intervalMs: 50,
    });
    expect((await ask()).code).toMatch(/budget/);
    const [entry] = await held(scene, tried);
    const path = `/api/v1/quarantine/${String(entry?.id)}/discard`;
    await operate(scene.product, 'POST', path, { note: 'the vendor reports nonsense' });
    expect(await held(scene, tried)).toEqual([]);
  } finally {
    await odd.close();
  }
}

function replyOf(format: VendorFormat, stream: boolean, tokens: number): OddReply {
  const { document, events } = SAYS[format](tokens);
  if (!stream) return { type: 'application/json', pieces: [JSON.stringify(document)] };
  const pieces = events.map(
    (event) => `event: ${String(event.type ?? 'message')}\ndata: ${JSON.stringify(event)}\n\n`,
  );
  return { type: 'text/event-stream', pieces: format === 'chat' ? [...pieces, 'data: [DONE]\n\n'] : pieces };
}

async function held({ product }: Scene, { mark }: Tenant): Promise<readonly Json[]> {
  const { data } = await operate(product, 'GET', '/api/v1/quarantine?state=held&page_size=500');
  return (data as Json[]).filter(({ principal_id }) => principal_id === mark);
}
