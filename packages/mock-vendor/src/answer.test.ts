import { expect, test } from 'vitest';
import { composeAnswer } from './answer.ts';
import { NORMAL } from './behaviour.ts';
import type { Conversation } from './conversation.ts';

const tool = {
  name: 'weather',
  parameters: { properties: { city: { type: 'string' } }, required: ['city'] },
};

function conversation(changes: Partial<Conversation> = {}): Conversation {
  return {
    model: 'echo',
    messages: [{ role: 'user', text: 'Hello there, world' }],
    tools: [],
    toolChoice: 'auto',
    choices: 1,
    maxOutputTokens: undefined,
    ...changes,
  };
}

test('the last user message comes back, word by word', () => {
  const answer = composeAnswer(conversation(), NORMAL);
  expect(answer.pieces).toEqual(['Hello ', 'there, ', 'world']);
  expect(answer).toMatchObject({ text: 'Hello there, world', cut: false, inputTokens: 12, textTokens: 5 });
});

test.each(['  padded\n\ttext  ', 'a', '', ' ', '日本 😀'])('the pieces are the whole text: %j', (text) => {
  const answer = composeAnswer(conversation({ messages: [{ role: 'user', text }] }), NORMAL);
  expect(answer.pieces.join('')).toBe(text);
});

test('a limit cuts the text, and reasoning uses it up first', () => {
  const limited = conversation({ maxOutputTokens: 3 });
  expect(composeAnswer(limited, NORMAL)).toMatchObject({ textTokens: 3, cut: true });
  const thinking = { ...NORMAL, reasoningTokens: 2 };
  expect(composeAnswer(limited, thinking)).toMatchObject({ textTokens: 1, reasoningTokens: 2, cut: true });
  const brooding = { ...NORMAL, reasoningTokens: 9 };
  expect(composeAnswer(limited, brooding)).toMatchObject({ text: '', reasoningTokens: 3, cut: true });
});

test.each([
  [5, undefined, 5, 5],
  [5, 12, 5, 12],
  [undefined, 12, 12, 12],
])('%s chunks and %s tokens are what is asked for', (chunks, outputTokens, pieces, tokens) => {
  const answer = composeAnswer(conversation(), { ...NORMAL, chunks, outputTokens });
  expect(answer.pieces).toHaveLength(pieces);
  expect(answer.textTokens).toBe(tokens);
  expect(answer.pieces.join('')).toBe(answer.text);
});

test('more cached tokens than input tokens are refused', () => {
  expect(() => composeAnswer(conversation(), { ...NORMAL, cachedTokens: 13 })).toThrow('at most');
  expect(composeAnswer(conversation(), { ...NORMAL, cachedTokens: 13, inputTokens: 13 }).cachedTokens).toBe(
    13,
  );
});

test.each([
  ['auto', 'What is the weather?', 'weather'],
  ['auto', 'Hello', undefined],
  ['none', 'What is the weather?', undefined],
  ['required', 'Hello', 'weather'],
  [{ name: 'weather' }, 'Hello', 'weather'],
] as const)('with tool_choice %j, %j calls %s', (toolChoice, text, toolName) => {
  const asked = conversation({ messages: [{ role: 'user', text }], tools: [tool], toolChoice });
  const answer = composeAnswer(asked, NORMAL);
  expect(answer.toolName).toBe(toolName);
  if (toolName) expect(JSON.parse(answer.pieces.join(''))).toEqual({ city: text });
});

test('the result of a tool is quoted, not called for again', () => {
  const messages = [
    { role: 'user', text: 'What is the weather?' },
    { role: 'assistant', text: '' },
    { role: 'tool', text: '21 degrees' },
  ];
  const answer = composeAnswer(conversation({ messages, tools: [tool], toolChoice: 'required' }), NORMAL);
  expect(answer.toolName).toBeUndefined();
  expect(answer.text).toBe('The tool answered: "21 degrees"');
});
