import { expect, test } from 'vitest';
import { NOTHING_ASKED } from '../model/conversation.ts';
import { parseChatRequest } from './chatRequest.ts';

const messages = [{ role: 'user', content: 'Hi' }];
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];

const parse = (body: unknown) => parseChatRequest(Buffer.from(JSON.stringify(body)));

test('a small request has its defaults', () => {
  expect(parse({ model: 'echo', messages })).toEqual({
    model: 'echo',
    messages: [{ role: 'user', text: 'Hi' }],
    tools: [],
    toolChoice: 'auto',
    choices: 1,
    maxOutputTokens: undefined,
    asked: NOTHING_ASKED,
    body: { model: 'echo', messages },
    stream: false,
    includeUsage: false,
  });
});

test('content parts give their text, one per line; images give none', () => {
  const content = [
    { type: 'text', text: 'one' },
    { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
    { type: 'text', text: 'two' },
  ];
  expect(parse({ model: 'echo', messages: [{ role: 'user', content }] }).messages[0]?.text).toBe('one\ntwo');
});

test('an assistant that called a tool may have no content', () => {
  const called = { role: 'assistant', content: null, tool_calls: [] };
  expect(parse({ model: 'echo', messages: [called] }).messages).toEqual([{ role: 'assistant', text: '' }]);
});

test('null is as good as absent', () => {
  const body = {
    model: 'echo',
    messages,
    n: null,
    stream: null,
    tools: null,
    tool_choice: null,
    max_tokens: null,
  };
  expect({ ...parse(body), body: undefined }).toEqual({
    ...parse({ model: 'echo', messages }),
    body: undefined,
  });
});

test.each([
  [{ messages }, null, null],
  [{ model: 4, messages }, 'model', 'invalid_type'],
  [{ model: 'echo' }, 'messages', 'missing_required_parameter'],
  [{ model: 'echo', messages: 'Hi' }, 'messages', 'invalid_type'],
  [{ model: 'echo', messages: [] }, 'messages', 'empty_array'],
  [{ model: 'echo', messages: ['Hi'] }, 'messages[0]', 'invalid_type'],
  [{ model: 'echo', messages: [{ role: 'boss', content: '' }] }, 'messages[0].role', 'invalid_value'],
  [{ model: 'echo', messages: [{ role: 'user' }] }, 'messages[0].content', 'missing_required_parameter'],
  [{ model: 'echo', messages: [{ role: 'user', content: null }] }, 'messages[0].content', 'invalid_type'],
  [
    { model: 'echo', messages: [{ role: 'user', content: [{}] }] },
    'messages[0].content[0].type',
    'missing_required_parameter',
  ],
  [{ model: 'echo', messages, max_tokens: 0 }, 'max_tokens', 'integer_below_min_value'],
  [{ model: 'echo', messages, max_tokens: '5' }, 'max_tokens', 'invalid_type'],
  [
    { model: 'echo', messages, max_tokens: 5, max_completion_tokens: 5 },
    'max_tokens',
    'invalid_parameter_combination',
  ],
  [{ model: 'echo', messages, n: 129 }, 'n', 'integer_above_max_value'],
  [{ model: 'echo', messages, stream: 'true' }, 'stream', 'invalid_type'],
  [{ model: 'echo', messages, stream_options: { include_usage: true } }, 'stream_options', null],
  [
    { model: 'echo', messages, tools: [{ type: 'function' }] },
    'tools[0].function',
    'missing_required_parameter',
  ],
  [{ model: 'echo', messages, tool_choice: 'required' }, 'tool_choice', null],
  [{ model: 'echo', messages, tools, tool_choice: { function: { name: 'other' } } }, 'tool_choice', null],
])('what OpenAI refuses is refused: %j', (body, param, code) => {
  expect(() => parse(body)).toThrow(expect.objectContaining({ status: 400, param, code }));
});

test.each(['', '{', '[]', '"text"', 'null'])('a body that is no JSON object is refused: %j', (body) => {
  expect(() => parseChatRequest(Buffer.from(body))).toThrow(expect.objectContaining({ status: 400 }));
});
