import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../testing/src/linearTime.ts';
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

  it('match as the rule says, whatever the pattern', () => {
    /** By the definition, one character at a time. */
    const isMatch = (pattern: string, text: string): boolean => {
      if (pattern === '') return text === '';
      if (pattern[0] === '*')
        return isMatch(pattern.slice(1), text) || (text !== '' && isMatch(pattern, text.slice(1)));
      return pattern[0] === text[0] && isMatch(pattern.slice(1), text.slice(1));
    };
    const of = (letters: string, maxLength: number) =>
      fc.string({ unit: fc.constantFrom(...letters), maxLength });
    fc.assert(
      fc.property(
        fc.array(of('ab*/\n', 7), { minLength: 1, maxLength: 3 }),
        of('ab/\n', 9),
        (patterns, text) => {
          expect(compileModelPatterns(patterns)(text)).toBe(patterns.some((one) => isMatch(one, text)));
        },
      ),
      { numRuns: 5_000 },
    );
  });

  it.each([2, 50])('match in linear time a pattern with %i wildcards', async (count) => {
    // A regular expression would take cubic time for two, and hours for fifty.
    const allowed = compileModelPatterns([`${'*a'.repeat(count)}*b`]);
    await expectLinear(400, (size) => {
      const id = 'a'.repeat(size);
      return () => expect(allowed(id)).toBe(false);
    });
  });
});
