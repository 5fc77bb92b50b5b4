import type { NanoUsd } from './money.ts';
import { divideHalfUp } from './money.ts';
import type { ModelPrice, TokenPrices } from './pricing.ts';
import { estimateTokens } from './tokenUsage.ts';

/** What is known of a request before it is sent. */
export interface RequestSize {
  readonly inputBytes: number;
  /** What the vendor may add to the input; none where it is left out. */
  readonly addedInputTokens?: number | undefined;
  /** Undefined where the model writes nothing: an embedding. */
  readonly output: OutputSize | undefined;
}

export interface OutputSize {
  /** How many tokens an answer may get; undefined where the caller sets no limit. */
  readonly maxTokens: number | undefined;
  /** How many answers are asked for. */
  readonly choices: number;
  /** How many tokens an answer of the model usually stays below. */
  readonly usualTokens?: number | undefined;
}

/** What a request is taken to come to before it is sent, and where nobody says later what it came to. */
export interface Estimate {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costNanoUsd: NanoUsd;
}

/** Most answers of most models stay below it. */
const USUAL_OUTPUT_TOKENS = 1_024;
const TOKENS_PER_PRICE = 1_000_000n;

/** Near the truth rather than above it: the input as text, and an output of the usual length unless less is allowed. */
export function balancedEstimate({ inputBytes, output }: RequestSize, price: ModelPrice): Estimate {
  const inputTokens = estimateTokens(inputBytes);
  const outputTokens = output ? usualTokens(output) : 0;
  const rates = [price, ...price.tiers.filter((tier) => inputTokens > tier.aboveInputTokens)];
  return estimate(inputTokens, dearest(rates, ['input']), outputTokens, dearest(rates, ['output']));
}

/**
 * Never below what a request comes to: each byte of the input a token of the dearest class and tier, with what the vendor
 * adds, and each answer as long as it may get. Only for a request whose answers are limited, where the model writes any.
 */
export function hardEstimate(
  { inputBytes, addedInputTokens = 0, output }: RequestSize,
  price: ModelPrice,
): Estimate {
  const rates = [price, ...price.tiers];
  if (output && output.maxTokens === undefined)
    throw new Error('an answer without a limit has no hard estimate');
  const outputTokens = output ? (output.maxTokens ?? 0) * output.choices : 0;
  const inputTokens = inputBytes + addedInputTokens;
  return estimate(inputTokens, dearest(rates, INPUT_CLASSES), outputTokens, dearest(rates, ['output']));
}

/** How long each answer may get so that its request costs no more than `room`; 0 where not even the input fits. */
export function affordableOutput(size: RequestSize, price: ModelPrice, room: NanoUsd): number {
  const rates = [price, ...price.tiers];
  const input = hardEstimate({ ...size, output: undefined }, price).costNanoUsd;
  const perToken = dearest(rates, ['output']) * BigInt(size.output?.choices ?? 1);
  if (perToken === 0n) return Number.MAX_SAFE_INTEGER;
  // A nano less, for what is rounded.
  const left = room - input - 1n;
  const tokens = left <= 0n ? 0n : (left * TOKENS_PER_PRICE) / perToken;
  return Number(tokens < BigInt(Number.MAX_SAFE_INTEGER) ? tokens : BigInt(Number.MAX_SAFE_INTEGER));
}

const INPUT_CLASSES = ['input', 'cacheRead', 'cacheWrite', 'cacheWrite1h'] as const;

function usualTokens({ maxTokens, choices, usualTokens: usual = USUAL_OUTPUT_TOKENS }: OutputSize): number {
  return Math.min(maxTokens ?? usual, usual) * choices;
}

function estimate(
  inputTokens: number,
  inputRate: NanoUsd,
  outputTokens: number,
  outputRate: NanoUsd,
): Estimate {
  const exact = BigInt(inputTokens) * inputRate + BigInt(outputTokens) * outputRate;
  return { inputTokens, outputTokens, costNanoUsd: divideHalfUp(exact, TOKENS_PER_PRICE) };
}

function dearest(rates: readonly TokenPrices[], classes: readonly (keyof TokenPrices)[]): NanoUsd {
  let most = 0n;
  for (const rate of rates) {
    for (const tokenClass of classes) if (rate[tokenClass] > most) most = rate[tokenClass];
  }
  return most;
}
