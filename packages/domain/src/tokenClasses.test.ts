import { expect, it } from 'vitest';
import { completeRates } from './modelPrice.ts';
import { CLASS_NAMES, PART_OF, PRICE_FIELDS, TOKEN_CLASSES } from './tokenClasses.ts';
import { countsOf, NO_TOKENS, usageOf } from './tokenUsage.ts';

it('names each class as the API, files and columns do', () => {
  expect(Object.entries(CLASS_NAMES)).toEqual([
    ['input', 'input'],
    ['output', 'output'],
    ['cacheRead', 'cache_read'],
    ['cacheWrite', 'cache_write'],
    ['cacheWrite1h', 'cache_write_1h'],
    ['inputAudio', 'input_audio'],
    ['inputImage', 'input_image'],
    ['cacheReadAudio', 'cache_read_audio'],
    ['outputAudio', 'output_audio'],
    ['outputImage', 'output_image'],
  ]);
  expect(PRICE_FIELDS.cacheWrite1h).toBe('cache_write_1h_price');
  expect(PART_OF.cacheReadAudio).toBe('cacheRead');
});

it('has a count of each class in usage', () => {
  expect(Object.keys(NO_TOKENS).sort()).toEqual(TOKEN_CLASSES.map((one) => `${one}Tokens`).sort());
  const usage = { ...NO_TOKENS, cacheWrite1hTokens: 3, outputImageTokens: 5 };
  expect(usageOf(countsOf(usage))).toEqual(usage);
});

it('prices a class of text that is left out by another one, and images unless they are null', () => {
  const media = { inputAudio: undefined, cacheReadAudio: undefined, outputAudio: 7 };
  expect(completeRates({ input: 2, output: 9, cacheWrite: 3, outputAudio: 7 })).toEqual({
    ...media,
    input: 2,
    output: 9,
    cacheRead: 2,
    cacheWrite: 3,
    cacheWrite1h: 3,
    inputImage: 2,
  });
  expect(completeRates({ input: 2, output: 9, cacheRead: null, inputImage: null, outputAudio: 7 })).toEqual({
    ...media,
    input: 2,
    output: 9,
    cacheRead: 2,
    cacheWrite: 2,
    cacheWrite1h: 2,
    inputImage: undefined,
  });
});
