import { describe, expect, it } from 'vitest';
import { didYouMean, nearestNames } from './nearestNames.ts';

const NAMES = [
  'openai/gpt-4o',
  'openai/gpt-4o-mini',
  'openai/gpt-5.4',
  'azure/gpt-5.4',
  'anthropic/claude-sonnet-4-5',
  'together/meta-llama/Llama-3-70b',
];
const near = (wanted: string, isReachable = (_name: string) => true) =>
  nearestNames(wanted, NAMES, isReachable);

describe('the nearest names', () => {
  it.each([
    ['OpenAI/GPT-4o', ['openai/gpt-4o', 'openai/gpt-4o-mini']],
    ['gpt-5.4', ['azure/gpt-5.4', 'openai/gpt-5.4']],
    ['google/gpt-5.4', ['azure/gpt-5.4', 'openai/gpt-5.4']],
    ['openai/gpt-4o-mimi', ['openai/gpt-4o-mini', 'openai/gpt-4o']],
    ['openai/gpt-4o-mini-2024-07-18', ['openai/gpt-4o-mini', 'openai/gpt-4o']],
    ['anthropic/claude-sonnet', ['anthropic/claude-sonnet-4-5']],
    ['together/meta-llama/llama-3-70b ', ['together/meta-llama/Llama-3-70b']],
    ['mistral/large', []],
    ['opennai/gpt-4o', ['openai/gpt-4o', 'openai/gpt-4o-mini']],
    ['', []],
    ['/', []],
    ['openai/', []],
    ['x'.repeat(100_000), []],
  ])('of %.40j are %j', (wanted, names) => expect(near(wanted)).toEqual(names));

  it('have none that the key can not reach', () => {
    expect(near('gpt-5.4', (name) => name !== 'azure/gpt-5.4')).toEqual(['openai/gpt-5.4']);
    expect(near('gpt-5.4', () => false)).toEqual([]);
  });

  it('are found quickly in a large catalog, whatever is asked', () => {
    const many = Array.from(
      { length: 5_000 },
      (_, at) => `provider-${at % 50}/model-${at}-${'x'.repeat(60)}`,
    );
    const startedAt = performance.now();
    nearestNames(`provider-1/model-1-${'x'.repeat(100_000)}`, many, () => false);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });
});

it('are shown as a question', () => {
  expect(didYouMean([])).toBe('');
  expect(didYouMean(['a/b', 'c/d'])).toBe(' Did you mean a/b or c/d?');
});
