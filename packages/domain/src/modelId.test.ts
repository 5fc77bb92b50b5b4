import { describe, expect, it } from 'vitest';
import { compileModelPatterns, parseModelId } from './modelId.ts';

describe('model id', () => {
  it('ends its provider at the first slash', () => {
    expect(parseModelId('together/meta-llama/Llama-3-70b')).toEqual({
      provider: 'together',
      name: 'meta-llama/Llama-3-70b',
    });
  });

  it.each(['gpt-5', '/gpt-5', 'openai/', 'OpenAI/gpt-5', ''])('is not %j', (text) => {
    expect(parseModelId(text)).toBeUndefined();
  });
});

describe('allowed models', () => {
  it('match full ids; * matches anything, including slashes', () => {
    const allowed = compileModelPatterns(['openai/gpt-5*', 'together/*']);
    expect(allowed('openai/gpt-5.4-mini')).toBe(true);
    expect(allowed('together/meta-llama/Llama-3-70b')).toBe(true);
    expect(allowed('xopenai/gpt-5')).toBe(false);
    expect(allowed('openai/gpt-4')).toBe(false);
  });

  it('match every other character literally', () => {
    expect(compileModelPatterns(['openai/gpt-5.4'])('openai/gpt-5x4')).toBe(false);
    expect(compileModelPatterns(['a/(b|c)'])('a/b')).toBe(false);
  });

  it('are all models without a pattern', () => {
    expect(compileModelPatterns([])('any/thing')).toBe(true);
  });
});
