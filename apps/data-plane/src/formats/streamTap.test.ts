import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chatFormat } from './chatFormat.ts';
import { messagesFormat } from './messagesFormat.ts';
import type { ResponseFormat } from './responseFormat.ts';
import { responsesFormat } from './responsesFormat.ts';
import { type OnEvent, StreamTap, without } from './streamTap.ts';

const event = (value: unknown, name?: string) =>
  `${name ? `event: ${name}\n` : ''}data: ${JSON.stringify(value)}\n\n`;

/** What the client gets of a stream that arrives in pieces. */
function passed(tap: StreamTap, text: string, sizes: () => number): string {
  const bytes = Buffer.from(text);
  let seen = '';
  for (let at = 0; at < bytes.length; ) {
    const size = sizes();
    seen += tap.push(bytes.subarray(at, at + size));
    at += size;
  }
  return seen + tap.end();
}

const content = event({ id: 'c-1', choices: [{ delta: { content: 'say "usage": {} é' } }], usage: null });
const report = event({
  id: 'c-1',
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});
const chat = `: ping\n\n${content}${content}${report}data: [DONE]\n\n`;

const messages = [
  event(
    {
      type: 'message_start',
      message: {
        id: 'm-1',
        usage: {
          input_tokens: 3,
          cache_creation_input_tokens: 9,
          cache_read_input_tokens: 4,
          cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 7 },
          output_tokens: 1,
        },
      },
    },
    'message_start',
  ),
  event({ type: 'ping' }, 'ping'),
  event(
    { type: 'content_block_delta', delta: { text: '"usage":{"output_tokens":99}' } },
    'content_block_delta',
  ),
  event(
    {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn' },
      usage: {
        input_tokens: 3,
        cache_creation_input_tokens: 9,
        cache_read_input_tokens: 4,
        output_tokens: 12,
      },
    },
    'message_delta',
  ),
  event({ type: 'message_stop' }, 'message_stop'),
].join('');

const usage = {
  input_tokens: 10,
  input_tokens_details: { cached_tokens: 4 },
  output_tokens: 6,
  output_tokens_details: { reasoning_tokens: 5 },
  total_tokens: 16,
};
const responses = [
  event({ type: 'response.created', response: { id: 'r-1', usage: null, error: null } }, 'response.created'),
  event(
    { type: 'response.output_text.delta', delta: '"response":{"usage":{}}' },
    'response.output_text.delta',
  ),
  event(
    { type: 'response.completed', response: { id: 'r-1', output: [{ usage: 1 }], usage } },
    'response.completed',
  ),
].join('');

const DIALECTS: [string, ResponseFormat, string, object][] = [
  ['chat', chatFormat, chat, { responseId: 'c-1', usage: { inputTokens: 3, outputTokens: 2 } }],
  [
    'messages',
    messagesFormat,
    messages,
    {
      responseId: 'm-1',
      usage: {
        inputTokens: 3,
        cacheReadTokens: 4,
        cacheWriteTokens: 2,
        cacheWrite1hTokens: 7,
        outputTokens: 12,
      },
    },
  ],
  [
    'responses',
    responsesFormat,
    responses,
    { responseId: 'r-1', usage: { inputTokens: 6, cacheReadTokens: 4, outputTokens: 6 } },
  ],
];

describe.each(DIALECTS)('a stream of %s', (_name, format, stream, facts) => {
  it('passes byte for byte and is read, wherever the chunks end and with any line ends', () => {
    fc.assert(
      fc.property(
        fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
        fc.constantFrom('\n', '\r\n', '\r'),
        (sizes, newline) => {
          const text = stream.replaceAll('\n', newline);
          const tap = new StreamTap({ format, hideUsage: false });
          expect(passed(tap, text, () => sizes.next().value)).toBe(text);
          expect(tap.facts).toMatchObject({ ...facts, failed: false });
        },
      ),
    );
  });

  it('is read where its last event lacks the blank line', () => {
    const tap = new StreamTap({ format, hideUsage: false });
    const text = stream.replace('data: [DONE]\n\n', '').trimEnd();
    expect(passed(tap, text, () => 7)).toBe(text);
    expect(tap.facts).toMatchObject(facts);
  });

  it('does not throw on events of another form', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.json()), { maxLength: 5 }), (lines) => {
        const text = lines.map((line) => `data: ${line}\n\n`).join('');
        const tap = new StreamTap({ format, hideUsage: false });
        expect(passed(tap, text, () => 5)).toBe(text);
      }),
    );
  });
});

describe('the chunk that reports usage', () => {
  it.each([1, 2, 7, 64, 10_000])(
    'is hidden from a caller that did not ask for it, in pieces of %d bytes',
    (size) => {
      const tap = new StreamTap({ format: chatFormat, hideUsage: true });
      const hidden = chat.replace(report, '').replaceAll(',"usage":null', '');
      expect(passed(tap, chat, () => size)).toBe(hidden);
      expect(tap.facts).toMatchObject({ responseId: 'c-1', usage: { inputTokens: 3, outputTokens: 2 } });
    },
  );

  it.each(['  ', '\t', '\n', ' \r\n\t'])('is read and hidden where %j precedes the object', (space) => {
    const spaced = (stream: string) =>
      stream.replaceAll('data: {', `data:${space.replace(/\r?\n/g, '\ndata:')}{`);
    const tap = new StreamTap({ format: chatFormat, hideUsage: true });
    const hidden = spaced(chat).replace(spaced(report), '').replaceAll(',"usage":null', '');
    expect(passed(tap, spaced(chat), () => 11)).toBe(hidden);
    expect(tap.facts).toMatchObject({ responseId: 'c-1', usage: { inputTokens: 3, outputTokens: 2 } });
  });

  it('is read in a document that is labelled as a stream, after any white space', () => {
    const document = '\n {"id":"c-1","usage":{"prompt_tokens":3,"completion_tokens":2}}';
    for (const size of [1, 4, 10_000]) {
      const tap = new StreamTap({ format: chatFormat, hideUsage: true });
      expect(passed(tap, document, () => size)).toBe(document);
      expect(tap.facts).toMatchObject({ responseId: 'c-1', usage: { inputTokens: 3, outputTokens: 2 } });
    }
  });

  it('is not hidden where it has content too', () => {
    const last = event({
      id: 'c-1',
      choices: [{ delta: {} }],
      usage: { prompt_tokens: 3, completion_tokens: 2 },
    });
    const tap = new StreamTap({ format: chatFormat, hideUsage: true });
    expect(passed(tap, last, () => 10)).toBe(last);
    expect(tap.facts.usage).toMatchObject({ outputTokens: 2 });
  });

  it('is hidden from the cache of such callers too, whoever asked first', () => {
    const seen: string[] = [];
    const onEvent: OnEvent = (bytes, hidden) => seen.push(`${without(bytes, hidden)}`);
    const tap = new StreamTap({ format: chatFormat, hideUsage: false, onEvent });
    expect(passed(tap, chat, () => 9)).toBe(chat);
    expect(seen.join('')).toBe(chat.replace(report, '').replaceAll(',"usage":null', ''));
  });
});

describe('a chunk without a report of the usage', () => {
  const hiding = (text: string, size = 10_000) =>
    passed(new StreamTap({ format: chatFormat, hideUsage: true }), text, () => size);

  it.each([
    ['data: {"id":"c","usage":null}', 'data: {"id":"c"}'],
    ['data: {"usage":null,"id":"c"}', 'data: {"id":"c"}'],
    ['data: {"id":"c","usage":null,"choices":[{}]}', 'data: {"id":"c","choices":[{}]}'],
    ['data:{"a":1 , "usage"\t: null }', 'data:{"a":1  }'],
    ['data: {"usage":null}', 'data: {}'],
    ['data: { "usage":null , "usage" : null,"a":1}', 'data: {  "a":1}'],
    ['data: {"a":1,"usage":null,"usage":null}', 'data: {"a":1}'],
    ['id: 7\ndata: {"a":1,\ndata: "usage":null,\ndata: "b":2}', 'id: 7\ndata: {"a":1,\ndata: "b":2}'],
    ['data: {"error":null,"annotations":[],"usage":null}', 'data: {"error":null,"annotations":[]}'],
    [
      `data: {"choices":[],"text":"${'é'.repeat(2_000)}","usage":null}`,
      `data: {"choices":[],"text":"${'é'.repeat(2_000)}"}`,
    ],
  ])('does not show "usage":null: %j', (sent, shown) => {
    for (const end of ['\n\n', '\r\n\r\n', '\r\r', ''])
      for (const size of [1, 3, 10_000]) expect(hiding(sent + end, size)).toBe(shown + end);
  });

  it.each([
    'data: {"id":"c","choices":[{"usage":null,"delta":{"content":"\\"usage\\":null"}}]}\n\n',
    'data: {"x_groq":{"usage":null},"name":"usage","n":null}\n\n',
    'data: {"Usage":null,"usage":0}\n\n',
    ': "usage":null\n\n',
    'data: "usage":null\n\n',
    'data: ["usage",null,{"usage":null}]\n\n',
    'data: {"usage":nu\n\n',
    'data: [DONE]\n\n',
  ])('shows everything else, byte for byte: %j', (text) => {
    for (const size of [1, 4, 10_000]) expect(hiding(text, size)).toBe(text);
  });

  it('lacks no other member, and the rest is as it was', () => {
    const value = fc.jsonValue();
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.oneof(fc.constant('usage'), fc.string()), fc.oneof(fc.constant(null), value))),
        fc.constantFrom(undefined, 1, '\t'),
        fc.integer({ min: 1, max: 50 }),
        (members, indent, size) => {
          const chunk = { id: 'c', ...Object.fromEntries(members) };
          const lines = JSON.stringify(chunk, null, indent).split('\n');
          const text = `${lines.map((line) => `data: ${line}`).join('\n')}\n\n`;
          const shown = hiding(text, size);
          const { usage, ...others } = chunk as { readonly usage?: unknown };
          if (usage !== null) expect(shown).toBe(text);
          else expect(JSON.parse(shown.replace(/^data: /gm, ''))).toEqual(JSON.parse(JSON.stringify(others)));
        },
      ),
    );
  });
});

const firstEvent = (stream: string) => stream.slice(0, stream.indexOf('\n\n') + 2);

describe('an error after a 200', () => {
  it.each([
    ['chat', chatFormat, content + event({ error: { message: 'overloaded' } })],
    ['messages', messagesFormat, firstEvent(messages) + event({ type: 'error', error: {} }, 'error')],
    ['responses', responsesFormat, firstEvent(responses) + event({ type: 'error', code: 'x' }, 'error')],
    [
      'responses that fail',
      responsesFormat,
      event({ type: 'response.failed', response: { id: 'r', error: { code: 'x' }, usage: null } }),
    ],
  ] as const)('is noticed in a stream of %s', (_name, format, text) => {
    const tap = new StreamTap({ format, hideUsage: false });
    passed(tap, text, () => 10);
    expect(tap.facts.failed).toBe(true);
    expect(tap.facts.usage).toBeUndefined();
  });
});

it('keeps the input usage of a Messages stream that breaks off', () => {
  const tap = new StreamTap({ format: messagesFormat, hideUsage: false });
  passed(tap, firstEvent(messages), () => 50);
  expect(tap.facts.partialUsage).toMatchObject({
    inputTokens: 3,
    cacheWrite1hTokens: 7,
    cacheWriteTokens: 2,
  });
  expect(tap.facts.usage).toBeUndefined();
});

describe('the event that ends a stream', () => {
  const chunk = 'data: {"choices":[{"delta":{"content":"[DONE]"}}]}\n\n';
  const ends = [
    [chatFormat, 'data: [DONE]\n\n'],
    [chatFormat, 'data:[DONE]\r\n\r\n'],
    [messagesFormat, 'event: message_stop\ndata: {"type":"message_stop"}\n\n'],
    ...['completed', 'incomplete', 'failed'].map(
      (status) => [responsesFormat, `data: {"type":"response.${status}","response":{"id":"r"}}\n\n`] as const,
    ),
  ] as const;

  it.each(ends)('is found, wherever the chunks end', (format, end) => {
    for (let cut = 0; cut <= end.length; cut++) {
      const tap = new StreamTap({ format, hideUsage: false });
      tap.push(Buffer.from(chunk));
      tap.push(Buffer.from(end.slice(0, cut)));
      if (cut < end.length) expect(tap.facts.isOver).toBe(false);
      tap.push(Buffer.from(end.slice(cut)));
      expect(tap.facts.isOver).toBe(true);
    }
  });

  it('is none of those before it', () => {
    const tap = new StreamTap({ format: responsesFormat, hideUsage: false });
    for (const type of ['response.created', 'response.in_progress', 'response.output_item.done']) {
      tap.push(Buffer.from(`data: {"type":"${type}","response":{"id":"r"},"item":{}}\n\n`));
    }
    expect(tap.facts.isOver).toBe(false);
  });
});
