import type { VendorFormat } from './oddVendor.ts';

type Json = Record<string, unknown>;

export const chunk = (delta: unknown, more: Json = {}) => ({
  id: 'c',
  choices: [{ index: 0, delta, ...more }],
});
export const call = (index: unknown, fields: Json) => chunk({ tool_calls: [{ index, ...fields }] });
export const STOP = chunk({}, { finish_reason: 'stop' });
const start = (index: unknown, block: unknown) => ({
  type: 'content_block_start',
  index,
  content_block: block,
});
const delta = (index: unknown, fields: unknown) => ({ type: 'content_block_delta', index, delta: fields });
const text = (words: string) => ({ type: 'text_delta', text: words });
const cites = (citation: unknown) => ({ type: 'citations_delta', citation });
const BEGIN = { type: 'message_start', message: { id: 'm', usage: { input_tokens: 3, output_tokens: 1 } } };
const END = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } },
  { type: 'message_stop' },
];
const tool = (id: unknown) => ({ type: 'tool_use', id, name: 'weigh', input: {} });

const created = { type: 'response.created', response: { id: 'resp_v', created_at: 1 } };
const completed = {
  type: 'response.completed',
  response: { status: 'completed', usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } },
};
const added = (output_index: unknown, item: unknown) => ({
  type: 'response.output_item.added',
  output_index,
  item,
});
const done = (output_index: unknown, item: unknown) => ({
  type: 'response.output_item.done',
  output_index,
  item,
});
const said = (type: string, fields: Json) => ({
  type: `response.${type}`,
  output_index: 0,
  content_index: 0,
  ...fields,
});
const opened = [
  added(0, { type: 'message', id: 'msg_v', content: [] }),
  said('content_part.added', { part: { type: 'output_text', text: '', annotations: [] } }),
];
const called = (fields: Json) => ({
  type: 'function_call',
  call_id: 'a',
  name: 'weigh',
  arguments: '',
  ...fields,
});

const candidate = (parts: unknown, more: Json = {}) => ({
  candidates: [{ content: { role: 'model', parts }, ...more }],
});
const WELL = {
  ...candidate([], { finishReason: 'STOP' }),
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4 },
};

/** Values in the place of every member of an event. */
const ODD_VALUES = [null, -1, 1e300, 'x', '', true, [], [null], {}, { a: null }] as const;
/** More than a piece of a connection, and less than what a request may hold. */
const GIANT = 'weigh '.repeat(200_000);

/** Streams that are whole and make no sense, by the format of the vendor. A text is sent as it is. */
export const ODD_STREAMS: Readonly<Record<VendorFormat, readonly (readonly unknown[])[]>> = {
  chat: [
    [],
    ['[DONE]'],
    ['{', 'null', '[]', '1', '"x"', STOP, '[DONE]'],
    [{ object: 'unheard.of', x: 1 }, { choices: [] }, STOP, '[DONE]'],
    [STOP, '[DONE]', chunk({ content: 'late' }), STOP, '[DONE]'],
    [call(0, { function: { arguments: '{}' } }), STOP, '[DONE]'],
    [call(1e9, { id: 'a', function: { name: 'weigh', arguments: '{' } }), STOP, '[DONE]'],
    [call(-1, { id: 'a', function: { name: 'weigh' } }), call('0', { id: 'b' }), STOP, '[DONE]'],
    [call(0, { id: '\ud800', function: { name: '', arguments: '\u0000' } }), STOP, '[DONE]'],
    [chunk({ content: GIANT }), STOP, '[DONE]'],
    [
      {
        choices: [
          { index: 1, delta: { content: 'b' } },
          { index: 0, delta: { content: 'a' } },
        ],
      },
      STOP,
      '[DONE]',
    ],
    ...ODD_VALUES.flatMap((value) => [
      [value, STOP, '[DONE]'],
      [{ choices: value }, STOP, '[DONE]'],
      [chunk(value), STOP, '[DONE]'],
      [chunk({ content: value, reasoning_content: value, tool_calls: value }), STOP, '[DONE]'],
      [call(value, { id: value, function: value }), STOP, '[DONE]'],
      [chunk({}, { finish_reason: value }), { usage: value, choices: [] }, '[DONE]'],
      [chunk({ content: 'a', annotations: value }), { citations: value, choices: [] }, STOP, '[DONE]'],
      [chunk({ content: 'a', annotations: [{ type: 'url_citation', url_citation: value }] }), STOP, '[DONE]'],
      [{ error: value }, '[DONE]'],
    ]),
  ],
  messages: [
    [],
    [END[1]],
    [BEGIN, { type: 'unheard_of' }, { type: 'ping' }, ...END],
    [BEGIN, ...END, ...END],
    [BEGIN, delta(7, text('x')), { type: 'content_block_stop', index: 9 }, ...END],
    [BEGIN, start(0, { type: 'text', text: '' }), start(0, tool('a')), delta(0, text('x')), ...END],
    [BEGIN, start(0, tool('a')), start(1, tool('a')), ...END],
    [BEGIN, start(0, { type: 'unheard_of' }), delta(0, { type: 'unheard_of_delta' }), ...END],
    [BEGIN, start(0, tool('a')), delta(0, text('x')), delta(0, { type: 'input_json_delta' }), ...END],
    [BEGIN, start(0, { type: 'text', text: '' }), delta(0, text(GIANT)), ...END],
    [
      BEGIN,
      start(0, { ...tool('a'), input: { truck: 1 } }),
      { type: 'content_block_stop', index: 0 },
      ...END,
    ],
    ...ODD_VALUES.flatMap((value) => [
      [value, BEGIN, ...END],
      [{ type: 'message_start', message: value }, ...END],
      [BEGIN, start(value, value), delta(value, value), ...END],
      [BEGIN, start(0, { type: 'tool_use', id: value, name: value, input: value }), ...END],
      [BEGIN, { type: 'message_delta', delta: value, usage: value }, END[1]],
      [BEGIN, start(0, { type: 'text', text: 'a', citations: value }), ...END],
      [BEGIN, start(0, { type: 'text', text: 'a' }), delta(0, cites(value)), ...END],
      [BEGIN, delta(0, cites({ url: value, title: value })), ...END],
      [BEGIN, { type: 'error', error: value }],
    ]),
  ],
  responses: [
    [],
    [completed],
    ['{', 'null', '[]', '1', '"x"', created, completed],
    [created, { type: 'response.unheard_of', x: 1 }, { type: 'keepalive' }, completed],
    [completed, ...opened, said('output_text.delta', { delta: 'late' }), completed],
    // Out of order: a piece before its block, an end before its beginning, an item that was never announced.
    [
      created,
      said('output_text.delta', { delta: 'early' }),
      ...opened,
      said('content_part.done', {}),
      completed,
    ],
    [created, said('content_part.done', {}), ...opened, ...opened, completed],
    [
      created,
      done(0, called({ arguments: '{}' })),
      said('function_call_arguments.delta', { delta: '{' }),
      completed,
    ],
    [created, added(0, called({ call_id: undefined })), added(1, called({})), done(0, called({})), completed],
    [
      created,
      added(0, called({ call_id: '\ud800', name: '' })),
      done(0, called({ arguments: '\u0000' })),
      completed,
    ],
    [created, ...opened, said('output_text.delta', { delta: GIANT }), completed],
    [{ type: 'response.completed', response: { status: 'queued', output: [null, {}, { type: 'message' }] } }],
    [created, { type: 'response.failed', response: {} }, completed],
    ...ODD_VALUES.flatMap((value) => [
      [value, created, completed],
      [{ type: value }, { type: 'response.created', response: value }, completed],
      [created, added(value, value), done(value, value), completed],
      [
        created,
        added(0, { type: 'message', content: value }),
        said('content_part.added', { part: value }),
        completed,
      ],
      [
        created,
        ...opened,
        said('output_text.delta', { delta: value }),
        said('content_part.done', { part: value }),
        completed,
      ],
      [
        created,
        added(0, called({ call_id: value, name: value })),
        done(0, called({ arguments: value })),
        completed,
      ],
      [
        created,
        added(0, { type: 'reasoning' }),
        done(0, { type: 'reasoning', id: value, encrypted_content: value }),
        completed,
      ],
      [created, ...opened, said('output_text.annotation.added', { annotation: value }), completed],
      [
        created,
        ...opened,
        said('output_text.annotation.added', { annotation: { type: 'url_citation', url: value } }),
        completed,
      ],
      [created, { type: 'response.completed', response: value }],
      [created, { type: 'response.completed', response: { status: value, output: value, usage: value } }],
      [created, { type: 'response.failed', response: { error: value } }],
      [created, { type: 'error', code: value, message: value }],
    ]),
  ],
  gemini: [
    [],
    [WELL],
    ['{', 'null', '[]', '1', '"x"', WELL],
    [{ unheardOf: { x: 1 } }, candidate([{ unheardOf: {} }]), WELL],
    [WELL, candidate([{ text: 'late' }]), WELL],
    [{ candidates: [{ index: 1, content: { parts: [{ text: 'b' }] }, finishReason: 'STOP' }] }, WELL],
    [
      candidate([
        { functionCall: {} },
        { functionCall: { id: 'a' } },
        { functionCall: { id: 'a', name: 'weigh' } },
      ]),
      WELL,
    ],
    ['{"candidates":[{"content":{"parts":[{"functionCall":{"name":"weigh","args":{"a":', WELL],
    [
      '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"weigh","args":[1]}}]},"finishReason":"STOP"}]}',
    ],
    [candidate([{ text: GIANT }]), WELL],
    [candidate([{ functionCall: { name: 'weigh', args: { a: GIANT } } }]), WELL],
    [
      candidate([
        { text: '', thoughtSignature: 'a' },
        { text: '', thoughtSignature: 'b' },
      ]),
      WELL,
    ],
    [{ promptFeedback: { blockReason: 'SAFETY' } }],
    [candidate([], { finishReason: 'UNHEARD_OF' })],
    ...ODD_VALUES.flatMap((value) => [
      [value, WELL],
      [{ candidates: value }, { candidates: [value] }, WELL],
      [{ candidates: [{ content: value }] }, candidate(value), candidate([value]), WELL],
      [candidate([{ text: value, thought: value, thoughtSignature: value }]), WELL],
      [candidate([{ functionCall: value }, { functionCall: { id: value, name: value, args: value } }]), WELL],
      [candidate([{ text: 'a' }], { groundingMetadata: value, citationMetadata: value }), WELL],
      [
        candidate([{ text: 'a' }], {
          groundingMetadata: { groundingChunks: [value], groundingSupports: [value] },
        }),
        WELL,
      ],
      [candidate([], { index: value, finishReason: value }), WELL],
      [{ promptFeedback: value, usageMetadata: value, responseId: value }, WELL],
      [{ promptFeedback: { blockReason: value } }],
      [{ error: value }, WELL],
    ]),
  ],
};

/** The beginnings of streams that break off. */
export const BEGUN: Readonly<Record<VendorFormat, readonly (readonly unknown[])[]>> = {
  chat: [
    [chunk({ content: 'Forty ' })],
    [chunk({ content: 'Forty ' }), call(0, { id: 'a', function: { name: 'weigh', arguments: '{"a' } })],
  ],
  messages: [
    [BEGIN, start(0, { type: 'text', text: '' }), delta(0, text('Forty '))],
    [BEGIN, start(0, { type: 'text', text: '' }), delta(0, text('Forty ')), start(1, tool('a'))],
  ],
  responses: [
    [created, ...opened, said('output_text.delta', { delta: 'Forty ' })],
    [created, added(0, called({})), said('function_call_arguments.delta', { delta: '{"a' })],
  ],
  gemini: [
    [candidate([{ text: 'Forty ' }])],
    [candidate([{ text: 'Forty ' }, { functionCall: { name: 'weigh', args: {} } }])],
  ],
};

/** Answers that should have been a document. */
export const DOCUMENTS = [
  '',
  '{',
  '[]',
  'null',
  '<html>',
  '{"choices":[{}]}',
  '{"choices":[{"message":{"tool_calls":[{}]}}]}',
  '{"content":[{"type":"tool_use"}],"usage":7}',
  '{"content":"x","choices":"x","output":"x","candidates":"x"}',
  '{"output":[null,7,{"type":"message","content":[null]},{"type":"function_call"}],"status":"completed"}',
  '{"candidates":[{"content":{"parts":[null,{"functionCall":{"args":7}}]},"finishReason":"STOP"}]}',
  `{"content":${'['.repeat(50_000)}`,
  `{"content":[{"type":"text","x":${'['.repeat(50_000)}${']'.repeat(50_000)}}]}`,
  `{"output":[{"type":"x","x":${'['.repeat(50_000)}${']'.repeat(50_000)}}],"status":"completed"}`,
];
