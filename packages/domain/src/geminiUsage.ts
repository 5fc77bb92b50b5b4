import { type TokenUsage, usageFromChat } from './tokenUsage.ts';

/**
 * Parses the `usageMetadata` of Gemini's API (https://ai.google.dev/api/generate-content#UsageMetadata). The prompt includes
 * what was read from a cache; what tools added to it, and thoughts, are counted apart. Each of these may be split by
 * modality: `TEXT`, `IMAGE`, `AUDIO`, `VIDEO`, `DOCUMENT`, of which images and audio have prices besides text. Zeros are
 * left out. Undefined if it has no usable counts.
 */
export function usageFromGemini(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const { promptTokenCount: prompt, totalTokenCount: total } = usage;
  const { candidatesTokenCount: candidates = usage.responseTokenCount } = usage;
  if (prompt === undefined && candidates === undefined && total === undefined) return undefined;
  const input = [usage.promptTokensDetails ?? usage.promptTokenDetails, usage.toolUsePromptTokensDetails];
  // The same classes as in chat completions, under other names.
  return usageFromChat({
    prompt_tokens: sum([prompt, usage.toolUsePromptTokenCount]),
    completion_tokens: sum([candidates, usage.thoughtsTokenCount]),
    total_tokens: total,
    prompt_tokens_details: {
      cached_tokens: usage.cachedContentTokenCount,
      audio_tokens: ofModality('AUDIO', input),
      image_tokens: ofModality('IMAGE', input),
      cached_tokens_details: {
        audio_tokens: ofModality('AUDIO', [usage.cacheTokensDetails]),
        image_tokens: ofModality('IMAGE', [usage.cacheTokensDetails]),
      },
    },
    completion_tokens_details: {
      audio_tokens: ofModality('AUDIO', [usage.candidatesTokensDetails]),
      image_tokens: ofModality('IMAGE', [usage.candidatesTokensDetails]),
    },
  });
}

/** What is absent is zero; what is no number makes the sum none. */
function sum(counts: readonly unknown[]): number {
  return counts.reduce<number>((all, count) => all + ((count ?? 0) as number), 0);
}

function ofModality(modality: string, details: readonly unknown[]): number {
  const counts = details.flatMap((list) => (Array.isArray(list) ? list : []));
  return sum(
    counts.flatMap((one: unknown) =>
      isRecord(one) && one.modality === modality && Number.isInteger(one.tokenCount) ? [one.tokenCount] : [],
    ),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
