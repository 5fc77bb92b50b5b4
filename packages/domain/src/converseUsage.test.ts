import { expect, it } from 'vitest';
import { usageFromConverse } from './converseUsage.ts';
import { NO_TOKENS } from './tokenUsage.ts';

it('classes are disjoint, and cache writes are split by their time to live', () => {
  const usage = {
    inputTokens: 10,
    outputTokens: 5,
    totalTokens: 121,
    cacheReadInputTokens: 100,
    cacheWriteInputTokens: 6,
    cacheDetails: [
      { ttl: '1h', inputTokens: 4 },
      { ttl: '5m', inputTokens: 2 },
    ],
  };
  expect(usageFromConverse(usage)).toEqual({
    ...NO_TOKENS,
    inputTokens: 10,
    outputTokens: 5,
    cacheReadTokens: 100,
    cacheWriteTokens: 2,
    cacheWrite1hTokens: 4,
  });
});

it.each([
  [undefined],
  [null],
  ['usage'],
  [{}],
  [{ inputTokens: -1, outputTokens: 1 }],
  [{ inputTokens: 1.5, outputTokens: 1 }],
  [{ inputTokens: '1', outputTokens: 1 }],
])('%j is none', (usage) => {
  expect(usageFromConverse(usage)).toBeUndefined();
});

it('never counts more written than there is', () => {
  const usage = {
    inputTokens: 1,
    outputTokens: 1,
    cacheWriteInputTokens: 2,
    cacheDetails: [{ ttl: '1h', inputTokens: 9 }, 7],
  };
  expect(usageFromConverse(usage)).toMatchObject({ cacheWriteTokens: 0, cacheWrite1hTokens: 2 });
});
