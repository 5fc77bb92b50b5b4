import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../../testing/src/linearTime.ts';
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

  const many = (count: number) => Array.from({ length: count }, (_, at) => `provider-${at % 50}/model-${at}`);

  it('are found in linear time in a large catalog', () =>
    expectLinear(4_000, (size) => {
      const names = many(size);
      return () => nearestNames('provider-1/model-1', names, () => false);
    }));

  it('cost no more the longer the name that is asked', () =>
    // The name grows with the square of the size, so work in proportion to its length would be noticed.
    expectLinear(400, (size) => {
      const names = many(500);
      return () => nearestNames('x'.repeat(size * size), names, () => false);
    }));
});

it('are shown as a question', () => {
  expect(didYouMean([])).toBe('');
  expect(didYouMean(['a/b', 'c/d'])).toBe(' Did you mean a/b or c/d?');
});
