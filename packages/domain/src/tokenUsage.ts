import { byClass, TOKEN_CLASSES, type TokenClass } from './tokenClasses.ts';

/**
 * The tokens of a request in disjoint classes: their sum is the vendor's total. Those of text hold text, and whatever the vendor
 * does not tell apart from it.
 */
export type TokenUsage = { readonly [Class in TokenClass as `${Class}Tokens`]: number };

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
  return totalInputTokens(usage) + totalOutputTokens(usage);
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

/** Input of all modalities that was neither read from nor written to a cache, as the ledger counts it. */
export function uncachedInputTokens(usage: TokenUsage): number {
  return usage.inputTokens + usage.inputAudioTokens + usage.inputImageTokens;
}

/** Input of all modalities that was read from a cache. */
export function cachedInputTokens(usage: TokenUsage): number {
  return usage.cacheReadTokens + usage.cacheReadAudioTokens;
}

/** Output of all modalities. */
export function totalOutputTokens(usage: TokenUsage): number {
  return usage.outputTokens + usage.outputAudioTokens + usage.outputImageTokens;
}

/** The counts by class, as protobuf messages have them. */
export function countsOf(usage: TokenUsage): Record<TokenClass, number> {
  return byClass((one) => usage[`${one}Tokens`]);
}

/** The inverse of `countsOf`. */
export function usageOf(counts: Readonly<Record<TokenClass, number>>): TokenUsage {
  return Object.fromEntries(TOKEN_CLASSES.map((one) => [`${one}Tokens`, counts[one]])) as TokenUsage;
}

/** Adds usage class by class. */
export function addTokens(one: TokenUsage, other: TokenUsage): TokenUsage {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    cacheReadTokens: one.cacheReadTokens + other.cacheReadTokens,
    cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
    cacheWrite1hTokens: one.cacheWrite1hTokens + other.cacheWrite1hTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    inputAudioTokens: one.inputAudioTokens + other.inputAudioTokens,
    inputImageTokens: one.inputImageTokens + other.inputImageTokens,
    cacheReadAudioTokens: one.cacheReadAudioTokens + other.cacheReadAudioTokens,
    outputAudioTokens: one.outputAudioTokens + other.outputAudioTokens,
    outputImageTokens: one.outputImageTokens + other.outputImageTokens,
  };
}

/**
 * Parses the `usage` object of chat completions and embeddings in the `openai` dialect, in which `prompt_tokens` includes
 * cached tokens (https://platform.openai.com/docs/api-reference/chat/object). Undefined if it has no usable counts; then
 * usage has to be estimated.
 */
export function usageFromChat(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const { prompt_tokens: input, completion_tokens: output } = usage;
  return inclusive(usage, input, usage.prompt_tokens_details, output, usage.completion_tokens_details);
}

/**
 * Parses the `usage` object of responses: the classes of chat completions under other names
 * (https://platform.openai.com/docs/api-reference/responses/object).
 */
export function usageFromResponses(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const { input_tokens: input, output_tokens: output } = usage;
  return inclusive(usage, input, usage.input_tokens_details, output, usage.output_tokens_details);
}

/**
 * Parses the `usage` object of messages, in which `input_tokens` excludes tokens read from and written to the cache
 * (https://docs.anthropic.com/en/api/messages). Written tokens come as a sum, and from newer models also by time to live.
 * Its `iterations` are not included.
 */
export function usageFromMessages(usage: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const inputTokens = tokenCount(usage.input_tokens);
  const cacheReadTokens = optionalCount(usage.cache_read_input_tokens);
  const sum = optionalCount(usage.cache_creation_input_tokens);
  const outputTokens = optionalCount(usage.output_tokens);
  if (inputTokens === undefined || cacheReadTokens === undefined) return undefined;
  if (sum === undefined || outputTokens === undefined) return undefined;
  const byLife = isRecord(usage.cache_creation) ? usage.cache_creation : {};
  const oneHour = tokenCount(byLife.ephemeral_1h_input_tokens) ?? 0;
  const fiveMinutes = tokenCount(byLife.ephemeral_5m_input_tokens) ?? 0;
  // The sum and its parts may disagree, or one may be missing: the rest has the default time to live.
  const written = Math.max(sum, oneHour + fiveMinutes);
  return {
    inputTokens,
    cacheReadTokens,
    cacheWriteTokens: written - oneHour,
    cacheWrite1hTokens: oneHour,
    outputTokens,
    inputAudioTokens: 0,
    inputImageTokens: 0,
    cacheReadAudioTokens: 0,
    outputAudioTokens: 0,
    outputImageTokens: 0,
  };
}

/**
 * In the `openai` dialect, the input includes cache reads and writes, audio and images; cached tokens and audio include
 * cached audio; and the output includes reasoning, audio and images.
 */
function inclusive(
  usage: Record<string, unknown>,
  inputField: unknown,
  inputDetails: unknown,
  outputField: unknown,
  outputDetails: unknown,
): TokenUsage | undefined {
  const input = tokenCount(inputField);
  const output = optionalCount(outputField);
  if (input === undefined || output === undefined) return undefined;
  const total = tokenCount(usage.total_tokens) ?? 0;
  const read = inputClasses(input, isRecord(inputDetails) ? inputDetails : NO_DETAILS, usage);
  // Some vendors exclude reasoning from the output but bill it: their total includes it.
  const whole = Math.max(output, total - input);
  const written = outputClasses(whole, isRecord(outputDetails) ? outputDetails : NO_DETAILS);
  // Member by member: spreads cost several times as much, for each request.
  return {
    inputTokens: read.inputTokens,
    cacheReadTokens: read.cacheReadTokens,
    cacheWriteTokens: read.cacheWriteTokens,
    cacheWrite1hTokens: 0,
    outputTokens: written.outputTokens,
    inputAudioTokens: read.inputAudioTokens,
    inputImageTokens: read.inputImageTokens,
    cacheReadAudioTokens: read.cacheReadAudioTokens,
    outputAudioTokens: written.outputAudioTokens,
    outputImageTokens: written.outputImageTokens,
  };
}

const NO_DETAILS: Record<string, unknown> = {};

function inputClasses(input: number, details: Record<string, unknown>, usage: Record<string, unknown>) {
  // The second is from DeepSeek, the third from Moonshot.
  const cached =
    tokenCount(details.cached_tokens) ??
    tokenCount(usage.prompt_cache_hit_tokens) ??
    tokenCount(usage.cached_tokens) ??
    0;
  const cachedDetails = isRecord(details.cached_tokens_details) ? details.cached_tokens_details : NO_DETAILS;
  let rest = input;
  const take = (tokens: number): number => {
    const taken = Math.min(Math.max(tokens, 0), rest);
    rest -= taken;
    return taken;
  };
  const allCached = Math.min(cached, input);
  const audio = tokenCount(details.audio_tokens) ?? 0;
  const image = tokenCount(details.image_tokens) ?? 0;
  const cachedAudio = Math.min(tokenCount(cachedDetails.audio_tokens) ?? 0, allCached);
  const cacheReadAudioTokens = take(cachedAudio);
  const cacheReadTokens = take(allCached - cachedAudio);
  const inputAudioTokens = take(audio - cachedAudio);
  const inputImageTokens = take(image - (tokenCount(cachedDetails.image_tokens) ?? 0));
  const cacheWriteTokens = take(tokenCount(details.cache_write_tokens) ?? 0);
  return {
    inputTokens: rest,
    cacheReadTokens,
    cacheWriteTokens,
    inputAudioTokens,
    inputImageTokens,
    cacheReadAudioTokens,
  };
}

function outputClasses(output: number, details: Record<string, unknown>) {
  const outputAudioTokens = Math.min(tokenCount(details.audio_tokens) ?? 0, output);
  const image = tokenCount(details.image_tokens) ?? 0;
  const outputImageTokens = Math.min(image, output - outputAudioTokens);
  return {
    outputTokens: output - outputAudioTokens - outputImageTokens,
    outputAudioTokens,
    outputImageTokens,
  };
}

/** English text has about four bytes per token. A little less errs towards more tokens. */
const BYTES_PER_TOKEN = 3.5;

/** Estimates the tokens of a text from its bytes. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** The largest number that is taken for a count: sums of several stay exact. */
const MAX_COUNT = 2 ** 48;

function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT
    ? value
    : undefined;
}

/** 0 if it is absent; undefined if it is no count. */
function optionalCount(value: unknown): number | undefined {
  return value === undefined || value === null ? 0 : tokenCount(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
