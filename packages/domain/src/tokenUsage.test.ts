import { describe, expect, it } from 'vitest';
import { estimateTokens, totalTokens, usageFromChat } from './tokenUsage.ts';

describe('usage on the OpenAI wire', () => {
  it('splits cached input from the rest, and sums to the total', () => {
    const usage = usageFromChat({
      prompt_tokens: 2006,
      completion_tokens: 300,
      total_tokens: 2306,
      prompt_tokens_details: { cached_tokens: 1920, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 128 },
    });
    expect(usage).toMatchObject({ inputTokens: 86, cacheReadTokens: 1920, outputTokens: 300 });
    expect(usage && totalTokens(usage)).toBe(2306);
  });

  it('counts reasoning that the vendor left out of completion_tokens but put into the total', () => {
    expect(usageFromChat({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 40 })?.outputTokens).toBe(
      30,
    );
  });

  it('believes an explicit zero', () => {
    expect(usageFromChat({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })).toMatchObject({
      inputTokens: 0,
      outputTokens: 0,
    });
  });

  it.each([
    null,
    undefined,
    [],
    'x',
    {},
    { prompt_tokens: -1 },
    { prompt_tokens: 1.5 },
    { prompt_tokens: '3' },
  ])('takes %j for no usage at all', (usage) => {
    expect(usageFromChat(usage)).toBeUndefined();
  });

  it('never reads more from the cache than there was input', () => {
    const usage = usageFromChat({
      prompt_tokens: 5,
      completion_tokens: 1,
      prompt_tokens_details: { cached_tokens: 9 },
    });
    expect(usage).toMatchObject({ inputTokens: 0, cacheReadTokens: 5 });
  });

  it('estimates upwards', () => {
    expect([0, 1, 7, 8].map(estimateTokens)).toEqual([0, 1, 2, 3]);
  });
});
