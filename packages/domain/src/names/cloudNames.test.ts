import { describe, expect, it } from 'vitest';
import { expectLinear } from '../../../testing/src/linearTime.ts';
import { parseCloudName } from './cloudNames.ts';

describe('the spelling of a cloud', () => {
  it.each([
    ['anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic', 'claude-sonnet-4-5-20250929'],
    ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'anthropic', 'claude-sonnet-4-5-20250929'],
    ['us-gov.anthropic.claude-3-5-sonnet-20241022-v2:0', 'anthropic', 'claude-3-5-sonnet-20241022'],
    ['global.anthropic.claude-opus-4-6-v1', 'anthropic', 'claude-opus-4-6'],
    ['apac.anthropic.claude-opus-5', 'anthropic', 'claude-opus-5'],
    ['openai.gpt-5.4', 'openai', 'gpt-5.4'],
    ['claude-sonnet-4-5@20250929', undefined, 'claude-sonnet-4-5-20250929'],
    ['claude-sonnet-4-5@default', undefined, 'claude-sonnet-4-5'],
    ['publishers/anthropic/models/claude-opus-4-5@20251101', undefined, 'claude-opus-4-5-20251101'],
    ['models/gemini-2.5-pro', undefined, 'gemini-2.5-pro'],
    ['google/gemini-2.5-pro', undefined, 'gemini-2.5-pro'],
  ])('%s is that of %s: %s', (spelled, provider, name) => {
    expect(parseCloudName(spelled)).toEqual({ provider, name });
  });

  it.each(['gpt-4o', 'claude-opus-4-5', 'meta-llama/Llama-3', '', '@', 'a@b', 'models/'])(
    'is not seen in %j',
    (name) => expect(parseCloudName(name)).toBeUndefined(),
  );

  it.each(['a.', '-v1', 'us.', '-v1:', '@', 'models/'])(
    'is looked for in linear time among many %s',
    (part) =>
      expectLinear(4_000, (size) => {
        const names = ['', 'a.', 'models/'].map((start) => `${start}${part.repeat(size)}/`);
        return () => names.map(parseCloudName);
      }),
  );
});
