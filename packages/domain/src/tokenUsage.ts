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
export function usageFromChat(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  return inclusive(usage, usage.prompt_tokens, usage.prompt_tokens_details, usage.completion_tokens);
}

/**
 * Reads the `usage` object of responses: the same classes as in chat completions under other names
 * (https://platform.openai.com/docs/api-reference/responses/object).
 */
export function usageFromResponses(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  return inclusive(usage, usage.input_tokens, usage.input_tokens_details, usage.output_tokens);
}

/**
 * Reads the `usage` object of messages, in which `input_tokens` are only those that the cache had no part in
 * (https://docs.anthropic.com/en/api/messages). Written tokens are told in sum, and from newer models by time to live.
 */
export function usageFromMessages(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const inputTokens = tokenCount(usage.input_tokens);
  if (inputTokens === undefined) return undefined;
  const byLife = isRecord(usage.cache_creation) ? usage.cache_creation : {};
  const oneHour = tokenCount(byLife.ephemeral_1h_input_tokens) ?? 0;
  const fiveMinutes = tokenCount(byLife.ephemeral_5m_input_tokens) ?? 0;
  // The sum and its parts may disagree, or one be missing: what is beyond the parts has the usual time to live.
  const written = Math.max(tokenCount(usage.cache_creation_input_tokens) ?? 0, oneHour + fiveMinutes);
  return {
    inputTokens,
    cacheReadTokens: tokenCount(usage.cache_read_input_tokens) ?? 0,
    cacheWriteTokens: written - oneHour,
    cacheWrite1hTokens: oneHour,
    outputTokens: tokenCount(usage.output_tokens) ?? 0,
  };
}

/** OpenAI's wire: the input contains what was read from and written to the cache, the output the reasoning. */
function inclusive(
  usage: Record<string, unknown>,
  inputField: unknown,
  detailsField: unknown,
  outputField: unknown,
): TokenUsage | undefined {
  const input = tokenCount(inputField);
  if (input === undefined) return undefined;
  const output = tokenCount(outputField) ?? 0;
  const total = tokenCount(usage.total_tokens) ?? 0;
  const details = isRecord(detailsField) ? detailsField : {};
  // The second is DeepSeek's, the third Moonshot's.
  const cached =
    tokenCount(details.cached_tokens) ??
    tokenCount(usage.prompt_cache_hit_tokens) ??
    tokenCount(usage.cached_tokens) ??
    0;
  const cacheReadTokens = Math.min(cached, input);
  const cacheWriteTokens = Math.min(tokenCount(details.cache_write_tokens) ?? 0, input - cacheReadTokens);
  return {
    inputTokens: input - cacheReadTokens - cacheWriteTokens,
    cacheReadTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: 0,
    // Some vendors leave reasoning out of the output and bill it all the same: their total has it.
    outputTokens: Math.max(output, total - input),
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
