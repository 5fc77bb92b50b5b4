import { expect, test } from 'vitest';
import { NORMAL } from '../shared/behaviour.ts';
import { type Conversation, NOTHING_ASKED } from './conversation.ts';
import { composeOutput } from './modelOutput.ts';

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
    asked: NOTHING_ASKED,
    ...changes,
  };
}

test('the output is the last user message, word by word', () => {
  const modelOutput = composeOutput(conversation(), NORMAL);
  expect(modelOutput.pieces).toEqual(['Hello ', 'there, ', 'world']);
  expect(modelOutput).toMatchObject({
    text: 'Hello there, world',
    cut: false,
    inputTokens: 12,
    textTokens: 5,
  });
});

test.each(['  padded\n\ttext  ', 'a', '', ' ', '日本 😀'])('the pieces add up to the text: %j', (text) => {
  const modelOutput = composeOutput(conversation({ messages: [{ role: 'user', text }] }), NORMAL);
  expect(modelOutput.pieces.join('')).toBe(text);
});

test('a limit truncates the text, and reasoning counts first', () => {
  const limited = conversation({ maxOutputTokens: 3 });
  expect(composeOutput(limited, NORMAL)).toMatchObject({ textTokens: 3, cut: true });
  const thinking = { ...NORMAL, reasoningTokens: 2 };
  expect(composeOutput(limited, thinking)).toMatchObject({ textTokens: 1, reasoningTokens: 2, cut: true });
  const brooding = { ...NORMAL, reasoningTokens: 9 };
  expect(composeOutput(limited, brooding)).toMatchObject({ text: '', reasoningTokens: 3, cut: true });
});

test.each([
  [5, undefined, 5, 5],
  [5, 12, 5, 12],
  [undefined, 12, 12, 12],
])('%s chunks and %s tokens are produced as requested', (chunks, outputTokens, pieces, tokens) => {
  const modelOutput = composeOutput(conversation(), { ...NORMAL, chunks, outputTokens });
  expect(modelOutput.pieces).toHaveLength(pieces);
  expect(modelOutput.textTokens).toBe(tokens);
  expect(modelOutput.pieces.join('')).toBe(modelOutput.text);
});

test('more cached tokens than input tokens are rejected', () => {
  expect(() => composeOutput(conversation(), { ...NORMAL, cachedTokens: 13 })).toThrow('at most');
  expect(composeOutput(conversation(), { ...NORMAL, cachedTokens: 13, inputTokens: 13 }).cachedTokens).toBe(
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
  const modelOutput = composeOutput(asked, NORMAL);
  expect(modelOutput.toolName).toBe(toolName);
  if (toolName) expect(JSON.parse(modelOutput.pieces.join(''))).toEqual({ city: text });
});

test('the result of a tool is quoted, and the tool is not called again', () => {
  const messages = [
    { role: 'user', text: 'What is the weather?' },
    { role: 'assistant', text: '' },
    { role: 'tool', text: '21 degrees' },
  ];
  const modelOutput = composeOutput(
    conversation({ messages, tools: [tool], toolChoice: 'required' }),
    NORMAL,
  );
  expect(modelOutput.toolName).toBeUndefined();
  expect(modelOutput.text).toBe('The tool answered: "21 degrees"');
});

test('it calls the tool of a script as often as asked, counted since the user last spoke', () => {
  const weather = {
    ...NORMAL,
    toolCalls: [
      { name: 'tide', arguments: '{}' },
      { name: 'weather', arguments: '{"city":"Rome"}' },
    ],
    toolRounds: 2,
  };
  const asked = { role: 'user', text: 'Well?' };
  const result = { role: 'tool', text: 'Sunny' };
  const called = { role: 'assistant', text: '' };
  const speak = (...messages: Conversation['messages']) =>
    composeOutput(conversation({ tools: [tool], messages }), weather);
  expect(speak(asked)).toMatchObject({ toolName: 'weather', text: '{"city":"Rome"}' });
  expect(speak(asked, called, result)).toMatchObject({ toolName: 'weather' });
  expect(speak(asked, called, result, called, result).text).toBe('The tool answered: "Sunny"');
  expect(speak(asked, called, result, called, result, called, asked)).toMatchObject({ toolName: 'weather' });
  expect(composeOutput(conversation({ messages: [asked] }), weather).text).toBe('Well?');
});
