import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { parseRequest } from '../src/translateRequest.ts';
import { answerOptions, translatedStream } from './answers.ts';
import { targetOf, translate } from './translating.ts';

const user = (content: unknown) => ({ role: 'user', content });
const assistant = (content: unknown) => ({ role: 'assistant', content });

/** A body of each format that has `count` parts of each kind. */
const MANY: Readonly<Record<Format, (count: number) => unknown>> = {
  messages: (count) => ({
    max_tokens: 9,
    messages: [
      user('x'),
      assistant(times(count, (id) => ({ type: 'tool_use', id: `c${id}`, name: 'a', input: {} }))),
      user(
        times(count, (id) => ({
          type: 'tool_result',
          tool_use_id: `c${count - id - 1}`,
          content: 'y',
          [`u${id}`]: 1,
        })),
      ),
    ],
  }),
  responses: (count) => ({
    input: times(count, (id) => ({
      type: 'function_call',
      call_id: `c${id}`,
      name: 'a',
      arguments: '{}',
    })).concat(
      times(count, (id) => ({
        type: 'function_call_output',
        call_id: `c${count - id - 1}`,
        output: 'y',
      })) as never,
    ),
  }),
  chat: (count) => ({
    messages: [
      {
        role: 'assistant',
        tool_calls: times(count, (id) => ({
          id: `c${id}`,
          type: 'function',
          function: { name: 'a', arguments: '{}' },
        })),
      },
      ...times(count, (id) => ({ role: 'tool', tool_call_id: `c${count - id - 1}`, content: 'y' })),
    ],
  }),
  gemini: (count) => ({
    contents: [
      { role: 'model', parts: times(count, (id) => ({ functionCall: { name: `f${id}`, args: {} } })) },
      {
        role: 'user',
        parts: times(count, (id) => ({ functionResponse: { name: `f${count - id - 1}`, response: {} } })),
      },
    ],
  }),
};

function times<Value>(count: number, one: (index: number) => Value): Value[] {
  return Array.from({ length: count }, (_, index) => one(index));
}

function nested(depth: number): string {
  return `${'{"type":"array","items":'.repeat(depth)}{}${'}'.repeat(depth)}`;
}

/** Each format is read once and written once. */
const RING = FORMATS.map((from, index) => ({ from, to: FORMATS[(index + 1) % FORMATS.length] ?? from }));

describe('bad input', () => {
  // Copying what was read for each part would take minutes.
  it.each(RING)('takes 10^5 parts: $from to $to', ({ from, to }) => {
    expect(translate(from, MANY[from](50_000), targetOf(to)).kind).toBe('translated');
  });

  it('names losses by their kind, however many places and names they have', () => {
    const translation = translate('messages', MANY.messages(2_000), targetOf('responses'));
    expect(translation.losses.length).toBeLessThanOrEqual(256);
    const marks = user(
      times(3_000, (id) => ({ type: 'text', text: `${id}`, cache_control: { type: 'ephemeral' } })),
    );
    const { losses } = translate('messages', { max_tokens: 99, messages: [marks] }, targetOf('responses'));
    expect(losses).toEqual([
      expect.objectContaining({ path: 'messages.0.content.0.cache_control', count: 3_000 }),
    ]);
  });

  it.each([100, 100_000])('passes a schema that is %i deep as it is, or refuses it', (depth) => {
    const body = `{"max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"a","input_schema":${nested(depth)}}]}`;
    const whole = translate('messages', body, targetOf('responses'));
    expect(whole.kind === 'translated' && whole.body.includes(nested(depth))).toBe(true);
    const lowered = translate('messages', body, targetOf('gemini', { schemas: 'subset' }));
    expect(lowered.kind).toBe('refused');
    const strict = body.replace('"name":"a"', '"name":"a","strict":true');
    expect(translate('messages', strict, targetOf('responses')).losses).toContainEqual(
      expect.objectContaining({ path: 'tools.0.strict', verdict: 'changed' }),
    );
  });

  it.each(FORMATS)('refuses any field that is 10^5 deep, or sends it as it is: %s', (format) => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    const bodies = [
      'messages',
      'input',
      'contents',
      'tools',
      'system',
      'metadata',
      'generationConfig',
      'other',
    ].map((name) => `{"${name}":${deep}}`);
    for (const body of bodies) {
      for (const to of FORMATS)
        expect(['refused', 'translated']).toContain(translate(format, body, targetOf(to)).kind);
    }
    expect(parseRequest(format, Buffer.from(deep.slice(1)))).toBeUndefined();
  });

  it('refuses results within results, however deep', () => {
    const depth = 20_000;
    const wrap = (open: string, close: string) => open.repeat(depth) + close.repeat(depth);
    const blocks = wrap('{"type":"search_result","title":"a","source":"b","content":[', ']}');
    const results = wrap('{"type":"tool_result","tool_use_id":"a","content":[', ']}');
    const parts = wrap('{"functionResponse":{"name":"a","response":{},"parts":[', ']}}');
    for (const to of FORMATS) {
      for (const content of [blocks, results]) {
        const body = `{"max_tokens":9,"messages":[{"role":"user","content":[${content}]}]}`;
        expect(translate('messages', body, targetOf(to)).kind).toBe('refused');
      }
      expect(
        translate('gemini', `{"contents":[{"role":"user","parts":[${parts}]}]}`, targetOf(to)).kind,
      ).toBe('refused');
    }
  });

  it('refuses a conversation that is cut in a tool call, naming each call', () => {
    const call = (id: string) => ({ type: 'tool_use', id, name: 'a', input: {} });
    const result = (tool_use_id: string) => ({ type: 'tool_result', tool_use_id, content: 'y' });
    const cases: [unknown[], string][] = [
      [[user('x'), assistant([call('1')])], 'messages.1.content.0'],
      [[user('x'), assistant([call('1'), call('2')]), user([result('1')])], 'messages.1.content.1'],
      [[user([result('1')])], 'messages.0.content.0'],
      [[user('x'), assistant([call('1'), call('1')]), user([result('1')])], 'messages.1.content.1'],
      [
        [user('x'), assistant([call('1')]), user([result('1'), { ...result('1'), content: 'z' }])],
        'messages.2.content.1',
      ],
    ];
    for (const [messages, path] of cases) {
      for (const to of ['responses', 'chat', 'gemini'] as const) {
        const translation = translate('messages', { max_tokens: 9, messages }, targetOf(to));
        expect(translation.kind).toBe('refused');
        expect(translation.losses.map((loss) => loss.path)).toContain(path);
      }
    }
  });

  it('puts late and mixed results after their calls', () => {
    const input = [
      { role: 'user', content: 'x' },
      { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
      { type: 'function_call', call_id: 'b', name: 'f', arguments: '{}' },
      { role: 'user', content: 'first' },
      { type: 'function_call_output', call_id: 'b', output: 'B' },
      { role: 'assistant', content: 'then' },
      { type: 'function_call_output', call_id: 'a', output: 'A' },
    ];
    const translation = translate('responses', { input }, targetOf('messages'));
    if (translation.kind !== 'translated') throw new Error('refused');
    const { messages } = JSON.parse(translation.body);
    expect(messages.map(({ role }: { role: string }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    expect(messages[2].content.map((block: { type: string }) => block.type)).toEqual([
      'tool_result',
      'tool_result',
      'text',
    ]);
  });

  it('hashes ids that a vendor does not take, to the same id at the call and its result', () => {
    const id = 'call/é '.repeat(30);
    const messages = [
      { role: 'assistant', tool_calls: [{ id, type: 'function', function: { name: 'a', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: id, content: 'y' },
    ];
    const translation = translate('chat', { messages }, targetOf('messages'));
    if (translation.kind !== 'translated') throw new Error('refused');
    const [call, result] = JSON.parse(translation.body).messages.map(
      (one: { content: unknown[] }) => one.content[0],
    );
    expect(call.id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    expect(result.tool_use_id).toBe(call.id);
    const mistral = translate('chat', { messages }, targetOf('chat', { callIdLength: 9 }));
    if (mistral.kind !== 'translated') throw new Error('refused');
    expect(JSON.parse(mistral.body).messages[0].tool_calls[0].id).toMatch(/^[a-zA-Z0-9]{9}$/);
  });

  it.each(['not json', '{"a":', '[1]', 'null', '"x"'])(
    'sends arguments that are no object inside one: %s',
    (input) => {
      const messages = [
        {
          role: 'assistant',
          tool_calls: [{ id: '1', type: 'function', function: { name: 'a', arguments: input } }],
        },
        { role: 'tool', tool_call_id: '1', content: 'y' },
      ];
      const translation = translate('chat', { messages }, targetOf('messages'));
      if (translation.kind !== 'translated') throw new Error('refused');
      expect(JSON.parse(translation.body).messages[0].content[0].input).toEqual({ INVALID_JSON: input });
      expect(translation.losses).toContainEqual(expect.objectContaining({ verdict: 'changed' }));
    },
  );
});

describe('deep arguments', () => {
  const written = (depth: number, to: Format) => {
    const input = `{"x":"[\\"{","y":${'['.repeat(depth)}${']'.repeat(depth)}}`;
    const called = { id: '1', type: 'function', function: { name: 'a', arguments: input } };
    const messages = [
      { role: 'assistant', tool_calls: [called] },
      { role: 'tool', tool_call_id: '1', content: 'y' },
    ];
    const { losses, ...one } = translate('chat', { max_tokens: 9, messages }, targetOf(to));
    const body = one.kind === 'translated' ? one.body : '';
    return { isWhole: body.includes(input), isNamed: losses.some(({ verdict }) => verdict === 'changed') };
  };

  it.each(['messages', 'gemini'] as const)('are sent as a text, as what is no object is: %s', (to) => {
    for (const depth of [513, 100_000]) expect(written(depth, to)).toEqual({ isWhole: false, isNamed: true });
    for (const depth of [1, 511]) expect(written(depth, to)).toEqual({ isWhole: true, isNamed: false });
  });
});

describe('a bad stream', () => {
  const START = { type: 'message_start', message: { id: 'm' } };
  const END = [{ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }];
  const stream = (...events: unknown[]) => events.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('');

  it.each(FORMATS)('opens and closes each block once, and ends once, whatever its order: %s', (to) => {
    const open = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
    const delta = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } };
    const stop = { type: 'content_block_stop', index: 0 };
    const events = [delta, START, open, delta, open, START, stop, stop, delta, ...END, ...END, open, delta];
    const written = translatedStream(stream(...events), answerOptions('messages', to));
    const clean = translatedStream(stream(START, open, delta, stop, ...END), answerOptions('messages', to));
    expect(written).toBe(clean);
  });

  it.each(FORMATS)('is never thrown at, whatever its events have: %s', (from) => {
    const values: unknown[] = [
      null,
      1,
      [],
      {},
      'x',
      { type: 'error' },
      { error: 1 },
      { choices: [null, {}] },
    ];
    const types = ['message_start', 'content_block_start', 'content_block_delta', 'message_delta', 'error'];
    const more = [
      'response.created',
      'response.output_item.added',
      'response.output_item.done',
      'response.failed',
    ];
    const parts = ['response.content_part.added', 'response.output_text.delta', 'response.completed'];
    for (const type of [...types, ...more, ...parts]) values.push({ type });
    values.push(
      { choices: [{ delta: { tool_calls: [null, {}, { index: {} }] } }] },
      { candidates: [{ content: { parts: [{}] } }] },
    );
    for (const to of FORMATS) {
      expect(typeof translatedStream(stream(...values), answerOptions(from, to))).toBe('string');
    }
  });

  it('ends an answer of too many parts with an error', () => {
    const block = (index: number) => [
      { type: 'content_block_start', index, content_block: { type: 'text', text: 'a' } },
      { type: 'content_block_stop', index },
    ];
    const blocks = times(10_001, block).flat();
    const written = translatedStream(stream(START, ...blocks, ...END), answerOptions('messages', 'chat'));
    expect(written).toContain('more than 10000 parts');
  });
});
