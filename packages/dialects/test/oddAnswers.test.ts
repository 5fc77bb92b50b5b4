import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import { answerOptions, foldedAnswer, translatedStream } from './answers.ts';
import { answerBySdk, seenIn } from './callers.ts';
import { targetOf, translate } from './translating.ts';

const events = (...list: readonly unknown[]): string =>
  list.map((one) => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`).join('');
const chunk = (delta: object, more: object = {}) => ({ id: 'c', choices: [{ index: 0, delta, ...more }] });
const CHAT_STOP = chunk({}, { finish_reason: 'tool_calls' });
const calls = (...tool_calls: readonly object[]) => chunk({ tool_calls });
const named = (input: string) => ({ type: 'function', function: { name: 'weigh', arguments: input } });
const BEGIN = { type: 'message_start', message: { id: 'm' } };
const END = [
  { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 4 } },
  { type: 'message_stop' },
];
const block = (index: number, content_block: object, ...deltas: readonly object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];
const toolUse = (input: object, id = '') => ({ type: 'tool_use', id, name: 'weigh', input });
const json = (partial_json: string) => ({ type: 'input_json_delta', partial_json });
const item = (output_index: number, input: string, call_id?: string) => {
  const call = { type: 'function_call', call_id, name: 'weigh', arguments: input };
  return [
    { type: 'response.output_item.added', output_index, item: { ...call, arguments: '' } },
    { type: 'response.output_item.done', output_index, item: call },
  ];
};
const candidates = (...list: readonly object[]) => ({ candidates: list });
const parts = (...list: readonly object[]) => ({ content: { role: 'model', parts: list } });

/** Two calls that their vendor does not tell apart, or otherwise than others. */
const TWO_CALLS: readonly (readonly [what: string, from: Format, stream: string])[] = [
  [
    'the same index',
    'chat',
    events(
      calls({ index: 0, id: 'a', ...named('{"truck":1}') }),
      calls({ index: 0, id: 'b', ...named('{"truck":2}') }),
      CHAT_STOP,
      '[DONE]',
    ),
  ],
  [
    'another id in each piece',
    'chat',
    events(
      calls({ index: 0, id: 'a', ...named('') }, { index: 1, id: 'b', ...named('') }),
      calls({ index: 0, id: 'c', function: { arguments: '{"truck":1}' } }),
      calls({ index: 1, id: 'd', function: { arguments: '{"truck":2}' } }),
      CHAT_STOP,
      '[DONE]',
    ),
  ],
  [
    'no ids',
    'chat',
    events(
      calls({ index: 0, ...named('{"truck":1}') }),
      calls({ index: 1, ...named('{"truck":2}') }),
      CHAT_STOP,
      '[DONE]',
    ),
  ],
  [
    'the same id, and arguments with the beginning of a call',
    'messages',
    events(
      BEGIN,
      ...block(0, toolUse({ truck: 1 }, 'a')),
      ...block(1, toolUse({ truck: 9 }, 'a'), json('{"truck":'), json('2}')),
      ...END,
    ),
  ],
  [
    'no ids',
    'responses',
    events(...item(0, '{"truck":1}'), ...item(1, '{"truck":2}'), {
      type: 'response.completed',
      response: { status: 'completed' },
    }),
  ],
  [
    'nothing but the whole response',
    'responses',
    events({
      type: 'response.completed',
      response: {
        status: 'completed',
        output: [...item(0, '{"truck":1}', 'a'), ...item(1, '{"truck":2}', 'a')].flatMap((event) =>
          event.type === 'response.output_item.done' ? [event.item] : [],
        ),
      },
    }),
  ],
  [
    'the same id',
    'gemini',
    events(
      candidates(
        parts(
          { functionCall: { id: 'a', name: 'weigh', args: { truck: 1 } } },
          { functionCall: { id: 'a', name: 'weigh', args: { truck: 2 } } },
        ),
      ),
      candidates({ finishReason: 'STOP' }),
    ),
  ],
];
const TO_ALL = TWO_CALLS.flatMap(([what, from, stream]) => FORMATS.map((to) => ({ what, from, stream, to })));

describe('two calls', () => {
  it.each(TO_ALL)('of $from with $what are two for $to, each with an id', async ({ from, stream, to }) => {
    const options = answerOptions(from, to);
    const bySdk = await answerBySdk(to, translatedStream(stream, options));
    const folded = JSON.parse(foldedAnswer(stream, options).body);
    for (const answer of [bySdk, folded]) {
      expect(seenIn(to, answer).calls.map(({ input }) => input)).toEqual(['{"truck":1}', '{"truck":2}']);
    }
    const ids = [...JSON.stringify(folded).matchAll(ID[to])].map(([, id]) => id);
    expect([ids.length, new Set(ids).size, ids.includes('')]).toEqual([2, 2, false]);
    expect(new Set([...JSON.stringify(bySdk).matchAll(ID[to])].map(([, id]) => id))).toEqual(new Set(ids));
  });
});

const ID: Readonly<Record<Format, RegExp>> = {
  messages: /"id":"([^"]*)","(?:name|type":"tool_use)/g,
  responses: /"call_id":"([^"]*)"/g,
  chat: /"id":"([^"]*)","type":"function"/g,
  gemini: /"functionCall":\{"id":"([^"]*)"/g,
};

const TWO_CHOICES: Readonly<Partial<Record<Format, readonly [stream: string, document: string]>>> = {
  chat: [
    events(
      { id: 'c', choices: [{ index: 1, delta: { content: 'no' } }] },
      {
        id: 'c',
        choices: [
          { index: 1, delta: { content: 'no' }, finish_reason: 'stop' },
          { index: 0, delta: { content: 'yes' } },
        ],
      },
      { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'length' }] },
      '[DONE]',
    ),
    JSON.stringify({
      choices: [
        { index: 1, message: { content: 'no' }, finish_reason: 'stop' },
        { index: 0, message: { content: 'yes' }, finish_reason: 'length' },
      ],
    }),
  ],
  gemini: [
    events(
      candidates({ index: 1, ...parts({ text: 'no' }) }),
      candidates({ index: 1, ...parts({ text: 'no' }), finishReason: 'STOP' }, { ...parts({ text: 'yes' }) }),
      candidates({ index: 0, finishReason: 'MAX_TOKENS' }),
    ),
    JSON.stringify(
      candidates(
        { index: 1, ...parts({ text: 'no' }), finishReason: 'STOP' },
        { ...parts({ text: 'yes' }), finishReason: 'MAX_TOKENS' },
      ),
    ),
  ],
};

describe('several choices', () => {
  const pairs = (['chat', 'gemini'] as const).flatMap((from) => FORMATS.map((to) => ({ from, to })));
  it.each(pairs)('of $from are one for $to, and the others are counted', ({ from, to }) => {
    const [stream = '', document = ''] = TWO_CHOICES[from] ?? [];
    const options = answerOptions(from, to);
    for (const { body, unknown } of [foldedAnswer(stream, options), translateDocument(document, options)]) {
      expect(seenIn(to, JSON.parse(body)).text).toBe('yes');
      expect(body).toMatch(/max_tokens|max_output_tokens|length|MAX_TOKENS/);
      expect([...unknown.keys()]).toEqual([from === 'chat' ? 'another choice' : 'another candidate']);
    }
  });
});

const DEEP = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
/** Documents with a member of great depth, in a place that has no meaning. */
const DEEP_DOCUMENTS: Readonly<Record<Format, string>> = {
  messages: `{"content":[{"type":"text","text":"yes"},{"type":"x","x":${DEEP}}],"stop_reason":"end_turn","x":${DEEP}}`,
  responses: `{"output":[{"type":"message","content":[{"type":"output_text","text":"yes","x":${DEEP}}]},{"type":"x","x":${DEEP}}],"status":"completed"}`,
  chat: `{"choices":[{"index":0,"message":{"content":"yes","x":${DEEP}},"finish_reason":"stop"}],"x":${DEEP}}`,
  gemini: `{"candidates":[{"content":{"parts":[{"text":"yes","x":${DEEP}}]},"finishReason":"STOP"}],"x":${DEEP}}`,
};

describe('a document of great depth', () => {
  it.each(FORMATS)('is read for what it says, or refused: %s', (from) => {
    for (const to of FORMATS) {
      const { status, body } = translateDocument(DEEP_DOCUMENTS[from], answerOptions(from, to));
      expect([status, status === 200 && seenIn(to, JSON.parse(body)).text]).toEqual(
        status === 200 ? [200, 'yes'] : [502, false],
      );
    }
  });
});

describe('results that come in another order than their calls', () => {
  const truck = (id: string, at: number) => ({ id, ...named(`{"truck":${at}}`) });
  const result = (tool_call_id: string, content: string) => ({ role: 'tool', tool_call_id, content });
  const asked = { role: 'assistant', tool_calls: [truck('a', 1), truck('b', 2)] };

  it.each(FORMATS)('reach a vendor in the order of the calls: %s', (to) => {
    const messages = [{ role: 'user', content: 'x' }, asked, result('b', 'second'), result('a', 'first')];
    const translation = translate('chat', { messages }, targetOf(to));
    const body = translation.kind === 'translated' ? translation.body : '';
    expect(body.indexOf('"first"')).toBeGreaterThan(0);
    expect(body.indexOf('"first"')).toBeLessThan(body.indexOf('"second"'));
  });
});
