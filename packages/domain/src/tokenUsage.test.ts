import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MEDIA_CLASSES, TOKEN_CLASSES } from './tokenClasses.ts';
import {
  addTokens,
  countsOf,
  estimateTokens,
  hasMediaTokens,
  NO_TOKENS,
  totalInputTokens,
  totalOutputTokens,
  totalTokens,
  usageFromChat,
  usageFromMessages,
  usageFromResponses,
  usageOf,
} from './tokenUsage.ts';

describe.each(TOKEN_CLASSES)('tokens of the class %s', (one) => {
  const usage = { ...NO_TOKENS, [`${one}Tokens`]: 7 };

  it('are input or output, and media if their class is one', () => {
    expect(totalInputTokens(usage) + totalOutputTokens(usage)).toBe(7);
    expect(totalTokens(usage)).toBe(7);
    expect(hasMediaTokens(usage)).toBe(MEDIA_CLASSES.some((media) => media === one));
  });

  it('are kept when counts are added and written', () => {
    expect(addTokens(usage, usage)).toEqual({ ...NO_TOKENS, [`${one}Tokens`]: 14 });
    expect(usageOf(countsOf(usage))).toEqual(usage);
  });
});

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

describe('usage of media', () => {
  const details = {
    cached_tokens: 40,
    cached_tokens_details: { text_tokens: 25, audio_tokens: 10, image_tokens: 5 },
    audio_tokens: 30,
    image_tokens: 20,
    text_tokens: 50,
  };
  const classes = {
    inputTokens: 35,
    cacheReadTokens: 30,
    cacheReadAudioTokens: 10,
    inputAudioTokens: 20,
    inputImageTokens: 15,
    outputTokens: 3,
    outputAudioTokens: 4,
    outputImageTokens: 5,
  };

  it('separates audio and images, cached or not, and sums to the total', () => {
    const output = { reasoning_tokens: 2, audio_tokens: 4, image_tokens: 5 };
    const chat = usageFromChat({
      prompt_tokens: 110,
      prompt_tokens_details: details,
      completion_tokens: 12,
      completion_tokens_details: output,
    });
    const response = usageFromResponses({
      input_tokens: 110,
      input_tokens_details: details,
      output_tokens: 12,
      output_tokens_details: output,
    });
    expect(chat).toMatchObject(classes);
    expect(response).toEqual(chat);
    expect(chat && totalTokens(chat)).toBe(122);
  });

  it('has disjoint classes that sum to the total, whatever the details say', () => {
    const count = fc.oneof(fc.nat(50), fc.constantFrom(null, -1, 1.5, '3', 1e30));
    fc.assert(
      fc.property(
        fc.nat(100),
        fc.nat(100),
        fc.record({
          cached_tokens: count,
          audio_tokens: count,
          image_tokens: count,
          cache_write_tokens: count,
          cached_tokens_details: fc.record({ audio_tokens: count, image_tokens: count }),
        }),
        fc.record({ audio_tokens: count, image_tokens: count }),
        (input, output, inputDetails, outputDetails) => {
          const usage = usageFromChat({
            prompt_tokens: input,
            completion_tokens: output,
            prompt_tokens_details: inputDetails,
            completion_tokens_details: outputDetails,
          });
          expect(usage && totalTokens(usage)).toBe(input + output);
          expect(usage && totalInputTokens(usage)).toBe(input);
          expect(Math.min(...Object.values(usage ?? {}))).toBeGreaterThanOrEqual(0);
        },
      ),
    );
  });
});

describe.each([
  ['chat completions', usageFromChat, 'prompt_tokens', 'completion_tokens'],
  ['responses', usageFromResponses, 'input_tokens', 'output_tokens'],
  ['messages', usageFromMessages, 'input_tokens', 'output_tokens'],
] as const)('usage of %s', (_name, parse, input, output) => {
  it.each([-1, 1.5, 1e30, '3', [], {}, true])('is undefined with an output of %j', (nonsense) => {
    expect(parse({ [input]: 3, [output]: nonsense })).toBeUndefined();
    expect(parse({ [input]: nonsense, [output]: 3 })).toBeUndefined();
    expect(parse({ [input]: 3, [output]: null })).toMatchObject({ outputTokens: 0 });
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
