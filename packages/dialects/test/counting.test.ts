import { describe, expect, it } from 'vitest';
import { readCount, writeCount } from '../src/counting.ts';
import { FORMATS, type Format } from '../src/format.ts';
import { parseRequest, translateRequest } from '../src/translateRequest.ts';
import { SAMPLES } from './samples.ts';
import { bodyOf, SCOPE, targetOf } from './translating.ts';

function counted(from: Format, to: Format, body: unknown = SAMPLES[from]) {
  const parsed = parseRequest(from, Buffer.from(JSON.stringify(body)), { counts: true });
  if (!parsed) throw new Error('the body is no JSON');
  const target = targetOf(to);
  return JSON.parse(
    bodyOf(translateRequest(parsed, { target, scope: SCOPE, policy: 'lenient', counts: true })),
  );
}

const TAKEN = {
  messages: ['messages', 'model', 'output_config', 'system', 'thinking', 'tool_choice', 'tools'],
  responses: [
    ...['input', 'instructions', 'model', 'parallel_tool_calls', 'reasoning', 'text', 'tool_choice', 'tools'],
  ],
  gemini: ['generateContentRequest'],
};

describe.each(FORMATS)('what %s asks to count', (from) => {
  it.each(['messages', 'responses', 'gemini'] as const)('has only what the counter of %s takes', (to) => {
    expect(TAKEN[to]).toEqual(expect.arrayContaining(Object.keys(counted(from, to))));
  });
});

it('is a whole request for Gemini, which names its model', () => {
  expect(counted('messages', 'gemini').generateContentRequest).toMatchObject({
    model: 'models/gemini-model',
    contents: expect.any(Array),
  });
});

it.each(['generateContentRequest', 'generate_content_request'])('is read within %s', (member) => {
  const args = '{"b":1.0,"a":[]}';
  const contents = [{ role: 'model', parts: [{ functionCall: { name: 'f', args: 'ARGS' } }] }];
  const text = JSON.stringify({ [member]: { model: 'models/x', contents } }).replace('"ARGS"', args);
  const parsed = parseRequest('gemini', Buffer.from(text), { counts: true });
  const [message] = parsed?.request.messages ?? [];
  expect(message?.parts).toMatchObject([{ name: 'f', input: args }]);
});

it('is answered as each dialect has it', () => {
  for (const format of ['messages', 'responses', 'gemini'] as const) {
    expect(readCount(format, writeCount(format, 7))).toBe(7);
  }
  expect(writeCount('responses', 7)).toBe('{"object":"response.input_tokens","input_tokens":7}');
  for (const body of ['', '{}', '[]', '{"input_tokens":"7"}', '{"input_tokens":-1}', '{"totalTokens":7}']) {
    expect(readCount('messages', body)).toBeUndefined();
  }
});
