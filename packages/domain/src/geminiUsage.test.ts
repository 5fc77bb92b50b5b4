import { describe, expect, it } from 'vitest';
import { usageFromGemini } from './geminiUsage.ts';
import { NO_TOKENS, totalTokens } from './tokenUsage.ts';

describe('the usage that Gemini reports', () => {
  it("has each token once, in its class, and adds up to the vendor's total", () => {
    const usage = usageFromGemini({
      promptTokenCount: 1_000,
      cachedContentTokenCount: 300,
      candidatesTokenCount: 90,
      thoughtsTokenCount: 40,
      toolUsePromptTokenCount: 60,
      totalTokenCount: 1_190,
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: 500 },
        { modality: 'AUDIO', tokenCount: 200 },
        { modality: 'IMAGE', tokenCount: 150 },
        { modality: 'VIDEO', tokenCount: 150 },
      ],
      cacheTokensDetails: [
        { modality: 'TEXT', tokenCount: 180 },
        { modality: 'AUDIO', tokenCount: 70 },
        { modality: 'IMAGE', tokenCount: 50 },
      ],
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 30 }],
      toolUsePromptTokensDetails: [{ modality: 'IMAGE', tokenCount: 10 }],
    });
    expect(usage).toEqual({
      ...NO_TOKENS,
      inputTokens: 1_060 - 300 - 130 - 110,
      cacheReadTokens: 230,
      cacheReadAudioTokens: 70,
      inputAudioTokens: 130,
      inputImageTokens: 110,
      outputTokens: 100,
      outputImageTokens: 30,
    });
    expect(usage && totalTokens(usage)).toBe(1_190);
  });

  it('counts as output what the total has besides', () => {
    expect(usageFromGemini({ promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 20 })).toEqual({
      ...NO_TOKENS,
      inputTokens: 5,
      outputTokens: 15,
    });
  });

  it('is zero where it says nothing of a class, and unknown where it says nothing at all', () => {
    expect(usageFromGemini({ promptTokenCount: 7 })).toEqual({ ...NO_TOKENS, inputTokens: 7 });
    for (const usage of [undefined, null, [], {}, { promptTokenCount: 'x' }, { promptTokenCount: -1 }])
      expect(usageFromGemini(usage)).toBeUndefined();
  });
});
