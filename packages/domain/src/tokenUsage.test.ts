import { describe, expect, it } from 'vitest';
import {
  estimateTokens,
  NO_TOKENS,
  totalTokens,
  usageFromChat,
  usageFromMessages,
  usageFromResponses,
} from './tokenUsage.ts';

describe('usage of chat completions', () => {
  it('separates cached input, and sums to the total', () => {
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

  it('counts reasoning that is in the total but not in completion_tokens', () => {
    expect(usageFromChat({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 40 })?.outputTokens).toBe(
      30,
    );
  });

  it.each(['prompt_cache_hit_tokens', 'cached_tokens'])('reads %s of some vendors', (name) => {
    expect(usageFromChat({ prompt_tokens: 10, completion_tokens: 1, [name]: 4 })).toMatchObject({
      inputTokens: 6,
      cacheReadTokens: 4,
    });
  });

  it('accepts an explicit zero', () => {
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
  ])('is undefined for %j', (usage) => {
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

describe('usage of responses', () => {
  it.each([
    [
      'of text',
      {
        input_tokens: 36,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 87,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 123,
      },
      { inputTokens: 36, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens: 87 },
      123,
    ],
    [
      'with reasoning, which the output contains',
      {
        input_tokens: 75,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 1186,
        output_tokens_details: { reasoning_tokens: 1024 },
        total_tokens: 1261,
      },
      { inputTokens: 75, outputTokens: 1186 },
      1261,
    ],
    [
      'with cached input, which the input contains, read and written',
      {
        input_tokens: 4000,
        input_tokens_details: { cached_tokens: 1024, cache_write_tokens: 2048 },
        output_tokens: 10,
        total_tokens: 4010,
      },
      { inputTokens: 928, cacheReadTokens: 1024, cacheWriteTokens: 2048, outputTokens: 10 },
      4010,
    ],
  ])('%s', (_what, usage, classes, total) => {
    const read = usageFromResponses(usage);
    expect(read).toMatchObject(classes);
    expect(read && totalTokens(read)).toBe(total);
  });

  it.each([null, undefined, {}, { prompt_tokens: 3 }])('is undefined for %j', (usage) => {
    expect(usageFromResponses(usage)).toBeUndefined();
  });
});

describe('usage of messages', () => {
  it('has disjoint classes already', () => {
    const usage = usageFromMessages({
      input_tokens: 50,
      cache_read_input_tokens: 100_000,
      cache_creation_input_tokens: 0,
      output_tokens: 393,
    });
    expect(usage).toEqual({
      ...NO_TOKENS,
      inputTokens: 50,
      cacheReadTokens: 100_000,
      cacheWriteTokens: 0,
      cacheWrite1hTokens: 0,
      outputTokens: 393,
    });
  });

  it('separates cache writes by their time to live', () => {
    const usage = usageFromMessages({
      input_tokens: 2048,
      cache_read_input_tokens: 1800,
      cache_creation_input_tokens: 556,
      cache_creation: { ephemeral_5m_input_tokens: 456, ephemeral_1h_input_tokens: 100 },
      output_tokens: 503,
    });
    expect(usage).toMatchObject({ cacheWriteTokens: 456, cacheWrite1hTokens: 100 });
    expect(usage && totalTokens(usage)).toBe(2048 + 1800 + 556 + 503);
  });

  it('counts cache writes without a time to live as the default one, and drops none', () => {
    const written = (creation: object | null, sum?: number) =>
      usageFromMessages({
        input_tokens: 1,
        cache_creation_input_tokens: sum,
        cache_creation: creation,
        output_tokens: 1,
      });
    expect(written(null, 7)).toMatchObject({ cacheWriteTokens: 7, cacheWrite1hTokens: 0 });
    expect(written({ ephemeral_1h_input_tokens: 3 }, 7)).toMatchObject({
      cacheWriteTokens: 4,
      cacheWrite1hTokens: 3,
    });
    expect(written({ ephemeral_1h_input_tokens: 9, ephemeral_5m_input_tokens: 2 }, 7)).toMatchObject({
      cacheWriteTokens: 2,
      cacheWrite1hTokens: 9,
    });
  });

  it('accepts explicit zeros, and is undefined without input', () => {
    expect(usageFromMessages({ input_tokens: 0, output_tokens: 0 })).toMatchObject({ inputTokens: 0 });
    for (const usage of [null, {}, { output_tokens: 5 }, { input_tokens: null }, { input_tokens: -1 }]) {
      expect(usageFromMessages(usage)).toBeUndefined();
    }
  });
});
