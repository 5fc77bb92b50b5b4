import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from './generationRequest.ts';
import {
  CHAT_COMPLETIONS,
  GEMINI_OPERATIONS,
  MESSAGES,
  OPERATIONS,
  type Operation,
  RESPONSES,
} from './operation.ts';
import { RequestBody } from './requestBody.ts';
import type { Field } from './requestFields/field.ts';
import { findNamedObjects, isObjectId } from './storedObjects.ts';

/** The objects that a body names, by path, as the plan of a request finds them. */
function named(operation: Operation, body: string | object): Record<string, string> {
  const text = typeof body === 'string' ? body : JSON.stringify({ model: 'a/b', ...body });
  const request = readGenerationRequest(operation, new RequestBody([Buffer.from(text)]));
  const found = findNamedObjects(Buffer.from(text), operation.requestFields);
  // The watch may be wrong in one way only.
  if (found.length > 0) expect(request.mayNameObjects).toBe(true);
  return Object.fromEntries(found.map(({ path, id }) => [path, id]));
}
const part = (fields: object) => ({ input: [{ role: 'user', content: [fields] }] });
const tools = (...list: object[]) => ({ tools: list });

describe('the objects that a response names', () => {
  it.each<[object, Record<string, string>]>([
    [{ previous_response_id: 'resp_1' }, { previous_response_id: 'resp_1' }],
    [{ conversation: 'conv_1' }, { conversation: 'conv_1' }],
    [{ conversation: { id: 'conv_1' } }, { 'conversation.id': 'conv_1' }],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, { 'input[0].id': 'msg_1' }],
    // The type of a reference may be left out, or null.
    [
      { input: [{ id: 'msg_1' }, { type: null, id: 'msg_2' }] },
      { 'input[0].id': 'msg_1', 'input[1].id': 'msg_2' },
    ],
    [part({ type: 'input_file', file_id: 'file-1' }), { 'input[0].content[0].file_id': 'file-1' }],
    [part({ type: 'input_image', file_id: 'file-1' }), { 'input[0].content[0].file_id': 'file-1' }],
    // A type that this release does not know.
    [part({ type: 'input_hologram', file_id: 'file-1' }), { 'input[0].content[0].file_id': 'file-1' }],
    [
      {
        input: [
          { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_file', file_id: 'file-1' }] },
        ],
      },
      { 'input[0].output[0].file_id': 'file-1' },
    ],
    [
      {
        input: [{ type: 'computer_call_output', output: { type: 'computer_screenshot', file_id: 'file-1' } }],
      },
      { 'input[0].output.file_id': 'file-1' },
    ],
    [
      { input: [{ type: 'code_interpreter_call', id: 'ci_1', container_id: 'cntr_1' }] },
      { 'input[0].id': 'ci_1', 'input[0].container_id': 'cntr_1' },
    ],
    [tools({ type: 'code_interpreter', container: 'cntr_1' }), { 'tools[0].container': 'cntr_1' }],
    [
      tools({ type: 'code_interpreter', container: { type: 'auto', file_ids: ['file-1', 'file-2'] } }),
      { 'tools[0].container.file_ids[0]': 'file-1', 'tools[0].container.file_ids[1]': 'file-2' },
    ],
    [tools({ type: 'file_search', vector_store_ids: ['vs_1'] }), { 'tools[0].vector_store_ids[0]': 'vs_1' }],
    [tools({ type: 'file_search', vector_store_ids: 'vs_1' }), { 'tools[0].vector_store_ids': 'vs_1' }],
    [
      tools({ type: 'shell', environment: { type: 'container_reference', container_id: 'cntr_1' } }),
      { 'tools[0].environment.container_id': 'cntr_1' },
    ],
    [
      tools({ type: 'image_generation', input_image_mask: { file_id: 'file-1' } }),
      { 'tools[0].input_image_mask.file_id': 'file-1' },
    ],
    [
      { prompt: { id: 'pmpt_1', variables: { any: { type: 'input_file', file_id: 'file-1' } } } },
      { 'prompt.id': 'pmpt_1', 'prompt.variables.any.file_id': 'file-1' },
    ],
    [
      { prompt_cache_options: { comparison_response_id: 'resp_1' } },
      { 'prompt_cache_options.comparison_response_id': 'resp_1' },
    ],
  ])('%j', (body, expected) => {
    expect(named(RESPONSES, body)).toEqual(expected);
  });

  it('are not what a tool of the client may have, nor what links the items of a request', () => {
    expect(
      named(RESPONSES, {
        input: [
          { type: 'function_call', call_id: 'call_1', name: 'file_id', arguments: '{"file_id":"x"}' },
          { type: 'function_call_output', call_id: 'call_1', output: '{"id":"x"}' },
        ],
        metadata: { file_id: 'x', conversation: 'y' },
        tools: [{ type: 'function', name: 'f', parameters: { properties: { file_id: { type: 'string' } } } }],
        previous_response_id: null,
        conversation: null,
      }),
    ).toEqual({});
  });

  it.each<[object, string]>([
    [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'x' }] }, 'whole'],
    [{ role: 'user', content: 'hi' }, 'whole'],
    [{ type: 'message', role: 'assistant', content: [] }, 'none'],
    [{ type: 'message', role: 'assistant', content: ' ' }, 'whole'],
    [{ role: 'user', content: '' }, 'none'],
    [{ type: 'reasoning', summary: [], encrypted_content: 'x' }, 'whole'],
    [{ type: 'reasoning', summary: [{ type: 'summary_text', text: 'x' }] }, 'none'],
    [{ type: 'reasoning', summary: [], encrypted_content: null, content: [{}] }, 'part'],
    [{ type: 'reasoning', summary: [], encrypted_content: '' }, 'none'],
    [{ type: 'function_call', call_id: 'call_1', name: 'f', arguments: '' }, 'whole'],
    [{ type: 'function_call_output', call_id: 'call_1', output: '' }, 'whole'],
    [{ type: 'image_generation_call', result: null }, 'none'],
    [{ type: 'image_generation_call', result: 'AAAA' }, 'whole'],
    [{ type: 'web_search_call', status: 'completed', action: { type: 'search' } }, 'part'],
    [{ type: 'web_search_call', status: 'completed' }, 'none'],
    [{ type: 'mcp_approval_response', approve: false }, 'whole'],
    // A type that this release does not know.
    [{ type: 'hologram_call', content: 'x', encrypted_content: 'x' }, 'none'],
    [{ type: null, content: 'x' }, 'none'],
  ])('have in %j what is there of their content', (item, inline) => {
    const body = JSON.stringify({ model: 'a/b', input: [{ ...item, id: 'item_1' }] });
    expect(findNamedObjects(Buffer.from(body), RESPONSES.requestFields)).toMatchObject([
      { id: 'item_1', inline },
    ]);
  });

  it.each([
    '{"type":"reasoning","encrypted_content":"x","encrypted_content":null,"id":"item_1"}',
    '{"type":"reasoning","encrypted_content":"x","Encrypted_Content":"","id":"item_1"}',
    '{"type":"reasoning","Encrypted_Content":"x","id":"item_1"}',
    '{"type":"message","type":"reasoning","content":"x","encrypted_content":{ },"id":"item_1"}',
    '{"type":"reasoning","encrypted_content":"x","id":"item_1"},{"type":"item_reference","id":"item_1"}',
    '{"type":"item_reference","encrypted_content":"x","content":"x","id":"item_1"}',
    '{"type":"reasoning","type":"item_reference","encrypted_content":"x","id":"item_1"}',
  ])('have no content that only some vendors would read: %s', (items) => {
    const body = Buffer.from(`{"model":"a/b","input":[${items}]}`);
    const [found] = findNamedObjects(body, RESPONSES.requestFields);
    expect(found).toMatchObject({ id: 'item_1' });
    expect(['none', 'part']).toContain(found?.inline);
  });

  it('may be anything if it says to be many things', () => {
    const types = Array.from({ length: 1_000 }, (_, at) => `"type":"t${at}"`).join(',');
    const item = `{"encrypted_content":"x","content":"x",${types},"type":"item_reference","id":"item_1"}`;
    const body = Buffer.from(`{"model":"a/b","input":[${item}]}`);
    expect(findNamedObjects(body, RESPONSES.requestFields)).toMatchObject([{ id: 'item_1', inline: 'none' }]);
  });

  it.each<[string, string]>([
    ['{"type":"mcp_approval_response","approval_request_id":"item_1","approve":true}', 'none'],
    [
      '{"type":"mcp_approval_request","id":"item_1","name":"f"},{"type":"mcp_approval_response","approval_request_id":"item_1"}',
      'whole',
    ],
    [
      '{"type":"mcp_approval_response","approval_request_id":"item_1"},{"type":"mcp_approval_request","id":"item_1","name":"f"}',
      'whole',
    ],
    [
      '{"type":"mcp_approval_response","approval_request_id":"item_1"},{"type":"mcp_approval_request","id":"item_1"}',
      'none',
    ],
  ])('that an approval names may be in the request: %s', (items, inline) => {
    const body = Buffer.from(`{"model":"a/b","input":[${items}]}`);
    expect(findNamedObjects(body, RESPONSES.requestFields)).toMatchObject([{ id: 'item_1', inline }]);
  });

  it('are found however they are spelled', () => {
    const spellings = [
      '{"model":"a/b","CONVERSATION":"conv_1"}',
      '{"model":"a/b","conv\\u0065rsation":"conv_1"}',
      '{"model":"a/b","conversation":"conv_0","conversation":"conv_1"}',
      '{"model":"a/b","conversation":{"ID":"conv\\u005f1"}}',
      '{"model":"a/b","input":[{"type":"message","type":"item_reference","id":"conv_1"}]}',
      '{"model":"a/b","input":[{"type":"item\\u005freference","id":"conv_1"}]}',
      '{"model":"a/b","input":[{"Type":"item_reference","id":"conv_1"}]}',
      '{"model":"a/b","input":[{"id":"conv_1","content":"x"}]}',
      // One for a list of one.
      '{"model":"a/b","input":{"type":"reasoning","id":"conv_1"}}',
      '{"model":"a/b","tools":{"type":"code_interpreter","container":"conv_1"}}',
    ];
    for (const body of spellings) expect(Object.values(named(RESPONSES, body)), body).toContain('conv_1');
  });
});

it('finds the objects of other operations', () => {
  expect(
    named(CHAT_COMPLETIONS, {
      messages: [
        { role: 'assistant', audio: { id: 'audio_1' } },
        {
          role: 'user',
          content: [
            { type: 'file', file: { file_id: 'file-1' } },
            { type: 'file', file_id: 'file-2' },
          ],
        },
      ],
      extra_body: { google: { cached_content: 'cachedContents/1' } },
    }),
  ).toEqual({
    'messages[0].audio.id': 'audio_1',
    'messages[1].content[0].file.file_id': 'file-1',
    'messages[1].content[1].file_id': 'file-2',
    'extra_body.google.cached_content': 'cachedContents/1',
  });
  const blocks = [
    { type: 'document', source: { type: 'file', file_id: 'file_1' } },
    { type: 'image', source: { type: 'file', file_id: 'file_2' } },
    { type: 'container_upload', file_id: 'file_3' },
    {
      type: 'tool_result',
      tool_use_id: 't',
      content: [{ type: 'image', source: { type: 'file', file_id: 'file_4' } }],
    },
    { type: 'tool_use', id: 'toolu_1', name: 'x', input: { container: 'x' } },
  ];
  expect(
    named(MESSAGES, {
      messages: [{ role: 'user', content: blocks }],
      container: { id: 'container_1' },
      thread: { type: 'continue', previous_message_id: 'msg_1' },
    }),
  ).toEqual({
    'messages[0].content[0].source.file_id': 'file_1',
    'messages[0].content[1].source.file_id': 'file_2',
    'messages[0].content[2].file_id': 'file_3',
    'messages[0].content[3].content[0].source.file_id': 'file_4',
    'container.id': 'container_1',
    'thread.previous_message_id': 'msg_1',
  });
  expect(named(MESSAGES, { container: 'container_1' })).toEqual({ container: 'container_1' });
});

it('does not look through a request without such a key', () => {
  const plain = {
    model: 'a/b',
    messages: [{ role: 'user', content: 'about file_id and conversation' }],
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
    tool_choice: 'auto',
  };
  for (const operation of OPERATIONS) {
    const request = readGenerationRequest(operation, new RequestBody([Buffer.from(JSON.stringify(plain))]));
    expect(request.mayNameObjects).toBe(false);
  }
  const calls = { ...plain, messages: [{ role: 'assistant', tool_calls: [{ id: 'call_1' }] }] };
  for (const operation of [CHAT_COMPLETIONS, MESSAGES]) {
    const request = readGenerationRequest(operation, new RequestBody([Buffer.from(JSON.stringify(calls))]));
    expect(request.mayNameObjects).toBe(false);
  }
});

describe('an id', () => {
  it.each(['resp_1', 'a', 'x'.repeat(512), 'a.b', 'A:b-c', '...'])('may be %s', (id) => {
    expect(isObjectId(id)).toBe(true);
  });
  it.each(['', '.', '..', 'a/b', 'a\\b', 'a%2Fb', 'a?b', 'a#b', 'a b', 'a\n', 'é', 'a\u0000'])(
    'may not be %j',
    (id) => {
      expect(isObjectId(id)).toBe(false);
      const body = Buffer.from(JSON.stringify({ model: 'a/b', conversation: id, previous_response_id: id }));
      const found = findNamedObjects(body, RESPONSES.requestFields);
      expect(found.map(({ isPossible }) => isPossible)).toEqual([false]);
    },
  );
  it('may not be in lists without end', () => {
    const body = Buffer.from(
      `{"model":"a/b","previous_response_id":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    );
    expect(() => findNamedObjects(body, RESPONSES.requestFields)).toThrow(
      expect.objectContaining({ code: 'field_out_of_bounds' }),
    );
  });
  it('stand in lists of at most 2,048, in every table', () => {
    const seen = new Set<Field>();
    const lists: number[] = [];
    const visit = (field: Field | undefined): void => {
      if (!field || seen.has(field)) return;
      seen.add(field);
      const { value, refers = {} } = field;
      Object.values(refers).forEach(visit);
      if (value.kind === 'list') {
        if (value.item.cost === 'stored') lists.push(value.most ?? Number.POSITIVE_INFINITY);
        visit(value.item);
      } else if (value.kind === 'map') visit(value.item);
      else if (value.kind === 'object') Object.values(value.fields).forEach(visit);
      else if (value.kind === 'variants') [...Object.values(value.variants), value.untagged].forEach(visit);
      else if (value.kind === 'kinds') [value.scalar, value.list, value.object].forEach(visit);
    };
    for (const { requestFields } of [...OPERATIONS, ...GEMINI_OPERATIONS])
      Object.values(requestFields).forEach(visit);
    expect(lists.length).toBeGreaterThan(5);
    expect(lists.filter((most) => most > 2_048)).toEqual([]);
  });
  it('may not have more than 512 bytes', () => {
    const id = 'x'.repeat(513);
    expect(isObjectId(id)).toBe(false);
    const body = Buffer.from(JSON.stringify({ model: 'a/b', conversation: { id } }));
    expect(() => findNamedObjects(body, RESPONSES.requestFields)).toThrow(
      expect.objectContaining({ code: 'field_out_of_bounds', param: 'conversation.id' }),
    );
  });
});
