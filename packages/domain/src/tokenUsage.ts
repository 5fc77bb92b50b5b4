/**
 * The tokens of a request in disjoint classes: their sum is the vendor's total. The first five hold text, and whatever the
 * vendor does not tell apart from it.
 */
export interface TokenUsage {
  /** Input tokens that were neither read from nor written to the vendor's prompt cache. */
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  /** Written to the prompt cache with the default time to live (five minutes if the vendor offers several). */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  /** Output tokens, including reasoning. */
  readonly outputTokens: number;
  readonly inputAudioTokens: number;
  readonly inputImageTokens: number;
  readonly cacheReadAudioTokens: number;
  readonly outputAudioTokens: number;
  readonly outputImageTokens: number;
}

export const NO_TOKENS: TokenUsage = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  inputAudioTokens: 0,
  inputImageTokens: 0,
  cacheReadAudioTokens: 0,
  outputAudioTokens: 0,
  outputImageTokens: 0,
};

/** Whether it has tokens of a class that only some models have. */
export function hasMediaTokens(usage: TokenUsage): boolean {
  return (
    usage.inputAudioTokens +
      usage.inputImageTokens +
      usage.cacheReadAudioTokens +
      usage.outputAudioTokens +
      usage.outputImageTokens >
    0
  );
}

export function totalTokens(usage: TokenUsage): number {
  return totalInputTokens(usage) + usage.outputTokens + usage.outputAudioTokens + usage.outputImageTokens;
}

/** The whole prompt, cached or not, by which a price's tier is selected. */
export function totalInputTokens(usage: TokenUsage): number {
  return (
    usage.inputTokens +
    usage.cacheReadTokens +
    usage.cacheWriteTokens +
    usage.cacheWrite1hTokens +
    usage.inputAudioTokens +
    usage.inputImageTokens +
    usage.cacheReadAudioTokens
  );
}

/**
 * Parses the `usage` object of chat completions and embeddings in the `openai` dialect, in which `prompt_tokens` includes
 * cached tokens (https://platform.openai.com/docs/api-reference/chat/object). Undefined if it has no usable counts; then
 * usage has to be estimated.
 */
export function usageFromChat(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  return inclusive(usage, usage.prompt_tokens, usage.prompt_tokens_details, usage.completion_tokens);
}

/**
 * Parses the `usage` object of responses: the classes of chat completions under other names
 * (https://platform.openai.com/docs/api-reference/responses/object).
 */
export function usageFromResponses(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  return inclusive(usage, usage.input_tokens, usage.input_tokens_details, usage.output_tokens);
}

/**
 * Parses the `usage` object of messages, in which `input_tokens` excludes tokens read from and written to the cache
 * (https://docs.anthropic.com/en/api/messages). Written tokens come as a sum, and from newer models also by time to live.
 */
export function usageFromMessages(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const inputTokens = tokenCount(usage.input_tokens);
  if (inputTokens === undefined) return undefined;
  const byLife = isRecord(usage.cache_creation) ? usage.cache_creation : {};
  const oneHour = tokenCount(byLife.ephemeral_1h_input_tokens) ?? 0;
  const fiveMinutes = tokenCount(byLife.ephemeral_5m_input_tokens) ?? 0;
  // The sum and its parts may disagree, or one may be missing: the rest has the default time to live.
  const written = Math.max(tokenCount(usage.cache_creation_input_tokens) ?? 0, oneHour + fiveMinutes);
  return {
    ...NO_TOKENS,
    inputTokens,
    cacheReadTokens: tokenCount(usage.cache_read_input_tokens) ?? 0,
    cacheWriteTokens: written - oneHour,
    cacheWrite1hTokens: oneHour,
    outputTokens: tokenCount(usage.output_tokens) ?? 0,
  };
}

/** In the `openai` dialect, the input includes cache reads and writes, and the output includes reasoning. */
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
  // The second is from DeepSeek, the third from Moonshot.
  const cached =
    tokenCount(details.cached_tokens) ??
    tokenCount(usage.prompt_cache_hit_tokens) ??
    tokenCount(usage.cached_tokens) ??
    0;
  const cacheReadTokens = Math.min(cached, input);
  const cacheWriteTokens = Math.min(tokenCount(details.cache_write_tokens) ?? 0, input - cacheReadTokens);
  return {
    ...NO_TOKENS,
    inputTokens: input - cacheReadTokens - cacheWriteTokens,
    cacheReadTokens,
    cacheWriteTokens,
    // Some vendors exclude reasoning from the output but bill it: their total includes it.
    outputTokens: Math.max(output, total - input),
  };
}

/** English text has about four bytes per token. A little less errs towards more tokens. */
const BYTES_PER_TOKEN = 3.5;

/** Estimates the tokens of a text from its bytes. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
