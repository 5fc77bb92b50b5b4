import { NO_TOKENS, type TokenUsage } from './tokenUsage.ts';

/**
 * Parses the `usage` of Bedrock's Converse, in which `inputTokens` has neither what was read from the cache nor what was written
 * to it (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html). Undefined if it is none.
 */
export function usageFromConverse(usage: unknown): TokenUsage | undefined {
  if (typeof usage !== 'object' || usage === null) return undefined;
  const { inputTokens, outputTokens, cacheReadInputTokens, cacheWriteInputTokens, cacheDetails } =
    usage as Readonly<Record<string, unknown>>;
  if (!isCount(inputTokens) || !isCount(outputTokens)) return undefined;
  const written = isCount(cacheWriteInputTokens) ? cacheWriteInputTokens : 0;
  const forAnHour = Math.min(writtenForAnHour(cacheDetails), written);
  return {
    ...NO_TOKENS,
    inputTokens,
    outputTokens,
    cacheReadTokens: isCount(cacheReadInputTokens) ? cacheReadInputTokens : 0,
    cacheWriteTokens: written - forAnHour,
    cacheWrite1hTokens: forAnHour,
  };
}

function writtenForAnHour(details: unknown): number {
  if (!Array.isArray(details)) return 0;
  let tokens = 0;
  for (const detail of details.slice(0, 10)) {
    const { ttl, inputTokens } = (detail ?? {}) as { readonly ttl?: unknown; readonly inputTokens?: unknown };
    if (ttl === '1h' && isCount(inputTokens)) tokens += inputTokens;
  }
  return tokens;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
