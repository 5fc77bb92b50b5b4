import { expect, it } from 'vitest';
import { isTranslatedRoute, translatedRoute } from './translatedRoute.ts';

it.each([
  ['openai', ['chat_completions', 'responses'], 'responses'],
  ['azure', ['responses', 'chat_completions'], 'responses'],
  ['openai', ['chat_completions'], 'chat_completions'],
  ['groq', ['responses', 'chat_completions'], 'chat_completions'],
  ['anthropic', ['chat_completions', 'messages'], 'messages'],
  ['gemini', ['chat_completions', 'generate_content'], 'generate_content'],
  ['voyage', ['embeddings'], undefined],
])('of %s with %j, it is %s', (provider, routes, expected) => {
  expect(translatedRoute(provider, (route) => routes.includes(route))).toBe(expected);
});

it('is one that generates', () => {
  expect(['responses', 'completions', 'embeddings', ''].map(isTranslatedRoute)).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
