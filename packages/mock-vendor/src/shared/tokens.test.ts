import { expect, test } from 'vitest';
import { firstTokens, textOfTokens, tokensOfPrompt, tokensOfText } from './tokens.ts';

test.each([
  ['', 0],
  ['abcd', 1],
  ['abcde', 2],
  ['é', 1],
  ['日本', 2],
])('a text has one token per started 4 bytes: %j', (text, tokens) => {
  expect(tokensOfText(text)).toBe(tokens);
});

test('each message of a prompt is counted separately, with its overhead', () => {
  expect(tokensOfPrompt(['abcde', 'a'])).toBe(2 + 4 + (1 + 4) + 3);
});

test.each([1, 2, 3, 4, 5, 6])(
  'cut to %i tokens, a text has exactly that many and no broken character',
  (tokens) => {
    const text = 'aé日😀bé日😀cé日😀';
    const start = firstTokens(text, tokens);
    expect(tokensOfText(start)).toBe(tokens);
    expect(text.startsWith(start)).toBe(true);
  },
);

test('truncated to no tokens, the text is empty', () => {
  expect(firstTokens('日本', 0)).toBe('');
});

test.each([0, 1, 2, 100])('a generated text has exactly %i tokens, one word each', (tokens) => {
  const text = textOfTokens(tokens);
  expect(tokensOfText(text)).toBe(tokens);
  expect(text.split(' ').filter((word) => word !== '')).toHaveLength(tokens);
});
