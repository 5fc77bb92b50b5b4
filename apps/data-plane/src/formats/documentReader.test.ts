import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { HeldMemory, MemoryBudget } from '../shared/memoryBudget.ts';
import { chatFormat } from './chatFormat.ts';
import { DocumentReader } from './documentReader.ts';
import { EventDataReader } from './eventDataReader.ts';
import { shape } from './jsonShape.ts';
import { messagesFormat } from './messagesFormat.ts';
import type { ResponseFacts, ResponseFormat } from './responseFormat.ts';
import { responsesFormat } from './responsesFormat.ts';
import { StreamTap } from './streamTap.ts';

const MIB = 1024 * 1024;
/** Compressing takes longer than what is tested. */
const FAST = { level: 1 };
const FAST_BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const usage = { prompt_tokens: 5, completion_tokens: 38_000 };

async function read(format: ResponseFormat, body: Buffer, encoding?: string): Promise<ResponseFacts> {
  const memory = new HeldMemory(new MemoryBudget(64 * MIB));
  const reader = new DocumentReader(format, encoding, memory);
  for (let at = 0; at < body.length; at += 65_536) await reader.push(body.subarray(at, at + 65_536));
  const facts = await reader.end();
  expect(memory.bytes).toBe(0);
  return facts;
}

const large = (more: object) =>
  Buffer.from(
    JSON.stringify({ id: 'c-1', choices: [{ message: { content: 'word '.repeat(8 * MIB) } }], ...more }),
  );
const CHAT_FACTS = { responseId: 'c-1', usage: { inputTokens: 5, outputTokens: 38_000 }, isFinal: true };

describe('a document of 40 MiB', () => {
  it('is read while it passes, plain and encoded', async () => {
    const body = large({ usage, service_tier: 'priority', model: 'gpt-x' });
    const facts = { ...CHAT_FACTS, said: { serviceTier: 'priority' }, model: 'gpt-x', unreadable: false };
    expect(await read(chatFormat, body)).toMatchObject(facts);
    // As compressible as text is: above that, it counts as made to fill memory.
    const random = Buffer.alloc(MIB, 'abc').map(() => 97 + Math.floor(Math.random() * 26));
    const text = Buffer.concat([Buffer.from(`{"x":"${random}",`), body.subarray(1)]);
    expect(await read(chatFormat, gzipSync(text, FAST), 'gzip')).toMatchObject(facts);
    expect(await read(chatFormat, deflateSync(text, FAST), 'deflate')).toMatchObject(facts);
    expect(await read(chatFormat, brotliCompressSync(text, FAST_BROTLI), 'br')).toMatchObject(facts);
  });

  it('is unreadable if nothing decodes it, or it was made to fill memory', async () => {
    const unread = { usage: undefined, unreadable: true };
    expect(await read(chatFormat, large({ usage }), 'zstd')).toMatchObject(unread);
    expect(await read(chatFormat, gzipSync(large({ usage })), 'gzip')).toMatchObject(unread);
    const damaged = gzipSync(Buffer.from(JSON.stringify({ usage })));
    damaged.fill(0, 12);
    expect(await read(chatFormat, damaged, 'gzip')).toMatchObject(unread);
  });

  it('reports what came before it broke off', async () => {
    const body = Buffer.from(JSON.stringify({ id: 'c-1', usage, filler: 'x'.repeat(2 * MIB) }));
    expect(await read(chatFormat, body.subarray(0, MIB))).toMatchObject(CHAT_FACTS);
    expect(await read(chatFormat, body.subarray(0, 40))).toMatchObject({
      responseId: 'c-1',
      usage: undefined,
    });
  });

  it('does not take usage within its content for its own', async () => {
    const message = {
      content: '"usage":{"prompt_tokens":1}',
      usage: { prompt_tokens: 1, completion_tokens: 1 },
    };
    const body = Buffer.from(JSON.stringify({ choices: [{ message, usage }], filler: 'x'.repeat(MIB) }));
    expect((await read(chatFormat, body)).usage).toBeUndefined();
  });

  it('counts the tools of a response', async () => {
    const image = { type: 'image_generation_call', result: 'A'.repeat(20 * MIB) };
    const output = [image, { type: 'web_search_call' }, image, { type: 'file_search_call' }];
    const body = Buffer.from(
      JSON.stringify({ id: 'r', output, usage: { input_tokens: 5, output_tokens: 1 } }),
    );
    expect(await read(responsesFormat, body)).toMatchObject({
      toolUses: { image_generation: 2, web_search: 1, file_search: 1 },
      usage: { inputTokens: 5 },
    });
  });

  it('may be a stream of events with another content type', async () => {
    const events = [
      { id: 'c-1', choices: [{ delta: { content: 'x'.repeat(2 * MIB) } }] },
      { id: 'c-1', choices: [], usage },
    ];
    const body = Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
    expect(await read(chatFormat, body)).toMatchObject(CHAT_FACTS);
    expect(await read(chatFormat, gzipSync(body).subarray(), 'gzip')).toMatchObject({ unreadable: true });
  });
});

describe('an event above 16 MiB', () => {
  const start = {
    type: 'message_start',
    message: { id: 'm', usage: { input_tokens: 3, output_tokens: 1 }, content: ['x'.repeat(20 * MIB)] },
  };
  const delta = {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', text: 'y'.repeat(20 * MIB) },
    usage: { output_tokens: 9 },
  };

  it.each(['\n', '\r\n', '\r'])('is read while its pieces pass, with lines that end in %j', (newline) => {
    const text = [start, { type: 'ping' }, delta, start]
      .map((event) => `event: x${newline}data: ${JSON.stringify(event)}${newline}${newline}`)
      .join('');
    const bytes = Buffer.from(text);
    const tap = new StreamTap({ format: messagesFormat, hideUsage: false });
    let passed = 0;
    for (let at = 0; at < bytes.length; at += 60_001)
      passed += tap.push(bytes.subarray(at, at + 60_001)).length;
    passed += tap.end().length;
    expect(passed).toBe(bytes.length);
    expect(tap.facts).toMatchObject({
      responseId: 'm',
      usage: { inputTokens: 3, outputTokens: 9 },
      isFinal: true,
      unreadable: false,
    });
  });

  it('is read the same at every split, with several data lines', () => {
    const text =
      'event: a\r\ndata:{"a":\rdata: [1,\ndatax: 7\ndata:2],\r\ndata\r\n: c\ndata: "b":3}\n\r\nmore';
    const bytes = Buffer.from(text);
    for (let first = 0; first <= bytes.length; first++) {
      for (const second of [first, first + 1, first + 3]) {
        const reader = new EventDataReader(shape({ a: 'value', b: 'value' }));
        reader.push(bytes.subarray(0, first));
        reader.push(bytes.subarray(first, second));
        reader.push(bytes.subarray(second));
        expect(reader.result).toEqual({ a: [1, 2], b: 3 });
        expect(reader.isComplete).toBe(true);
      }
    }
  });
});

it('reads a JSON document of any size that is labelled as a stream', () => {
  for (const size of [10, 20 * MIB]) {
    const body = Buffer.from(JSON.stringify({ id: 'c-1', filler: 'x'.repeat(size), usage }, null, 2));
    const tap = new StreamTap({ format: chatFormat, hideUsage: true });
    for (let at = 0; at < body.length; at += 65_536) tap.push(body.subarray(at, at + 65_536));
    tap.end();
    expect(tap.facts).toMatchObject(CHAT_FACTS);
  }
});
