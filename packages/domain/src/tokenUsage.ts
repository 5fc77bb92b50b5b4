/** What a request used, in disjoint classes: their sum is every token that the vendor counted. */
export interface TokenUsage {
  /** Input tokens that were neither read from nor written to the vendor's prompt cache. */
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  /** Written to the prompt cache with its usual time to live (five minutes where the vendor offers several). */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** Output tokens, reasoning included. */
  readonly outputTokens: number;
}

export const NO_TOKENS: TokenUsage = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
};

export function totalTokens(usage: TokenUsage): number {
  return totalInputTokens(usage) + usage.outputTokens;
}

/** What long-context tiers of a price list look at: the whole prompt, cached or not. */
export function totalInputTokens(usage: TokenUsage): number {
  return usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.cacheWrite1hTokens;
}

/**
 * Reads the `usage` object of chat completions and embeddings on OpenAI's wire, in which `prompt_tokens` contains the
 * cached ones (https://platform.openai.com/docs/api-reference/chat/object). Undefined for anything that does not say
 * what was used: the caller then estimates.
 */
export function usageFromOpenAi(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const prompt = tokenCount(usage.prompt_tokens);
  if (prompt === undefined) return undefined;
  const completion = tokenCount(usage.completion_tokens) ?? 0;
  const total = tokenCount(usage.total_tokens) ?? 0;
  const details = usage.prompt_tokens_details;
  const cached = (isRecord(details) ? tokenCount(details.cached_tokens) : undefined) ?? 0;
  const cacheReadTokens = Math.min(cached, prompt);
  return {
    ...NO_TOKENS,
    inputTokens: prompt - cacheReadTokens,
    cacheReadTokens,
    // Some vendors leave reasoning out of completion_tokens and bill it all the same: their total has it.
    outputTokens: Math.max(completion, total - prompt),
  };
}

/** English text on today's tokenizers is near four bytes a token; a little less errs on the side of the vendor. */
const BYTES_PER_TOKEN = 3.5;

/** What a text of so many bytes comes to where nobody counted. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
