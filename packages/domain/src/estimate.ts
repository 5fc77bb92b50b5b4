import type { ContextPrices, TokenPrices } from './modelPrice.ts';
import type { NanoUsd } from './money.ts';
import { divideHalfUp } from './money.ts';
import type { TextClass } from './tokenClasses.ts';
import { estimateTokens } from './tokenUsage.ts';

/** The size of a request, before it is sent. */
export interface RequestSize {
  readonly inputBytes: number;
  /** Tokens that the vendor may add to the input. Default: 0. */
  readonly addedInputTokens?: number | undefined;
  /** What the vendor's tools may cost besides tokens. Default: 0. */
  readonly toolCostNanoUsd?: NanoUsd | undefined;
  /** Undefined if the model has no output, as for embeddings. */
  readonly output: OutputSize | undefined;
}

export interface OutputSize {
  /** The limit of tokens per choice; undefined if the request sets none. */
  readonly maxTokens: number | undefined;
  readonly choices: number;
  /** The model's usual upper bound of tokens per choice. */
  readonly usualTokens?: number | undefined;
}

/** Used before a request is sent, and after it if the vendor reports no usage. */
export interface Estimate {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costNanoUsd: NanoUsd;
}

/** Most responses of most models have fewer. */
export const USUAL_OUTPUT_TOKENS = 1_024;
const TOKENS_PER_PRICE = 1_000_000n;

/** The expected cost: the input as text, and an output of the usual length or the request's limit, if that is less. */
export function balancedEstimate(size: RequestSize, price: ContextPrices): Estimate {
  const inputTokens = estimateTokens(size.inputBytes) + (size.addedInputTokens ?? 0);
  const outputTokens = expectedOutputTokens(size);
  const rates = ratesUpTo(inputTokens, price);
  const tokens = { inputTokens, outputTokens, toolCostNanoUsd: size.toolCostNanoUsd };
  return estimate(tokens, highest(rates, INPUT), highest(rates, OUTPUT));
}

/** The tokens of that estimate. */
export function balancedTokens(size: Pick<RequestSize, 'inputBytes' | 'output'>): number {
  return estimateTokens(size.inputBytes) + expectedOutputTokens(size);
}

function expectedOutputTokens({ output }: Pick<RequestSize, 'output'>): number {
  return output ? usualTokens(output) : 0;
}

/**
 * An upper bound: each byte of the input, and all that the vendor may add, is a token of the most expensive class, in the
 * most expensive tier that so many tokens reach, and each choice has the maximal length, under whichever of the prices is
 * the highest. Throws for an output without a limit.
 */
export function hardEstimate(
  { inputBytes, addedInputTokens = 0, output, toolCostNanoUsd }: RequestSize,
  prices: readonly ContextPrices[],
): Estimate {
  const inputTokens = inputBytes + addedInputTokens;
  const rates = ratesUnder(prices, inputTokens);
  if (output && output.maxTokens === undefined)
    throw new Error('a hard estimate needs a limit of the output');
  const outputTokens = output ? (output.maxTokens ?? 0) * output.choices : 0;
  const tokens = { inputTokens, outputTokens, toolCostNanoUsd };
  return estimate(tokens, highest(rates, INPUT_CLASSES), highest(rates, OUTPUT));
}

/** The longest output per choice, in tokens, that costs no more than `headroom` with the input; 0 if the input alone costs more. */
export function affordableOutput(
  size: RequestSize,
  prices: readonly ContextPrices[],
  headroom: NanoUsd,
): number {
  const rates = ratesUnder(prices, size.inputBytes + (size.addedInputTokens ?? 0));
  const input = hardEstimate({ ...size, output: undefined }, prices).costNanoUsd;
  const perToken = highest(rates, OUTPUT) * BigInt(size.output?.choices ?? 1);
  if (perToken === 0n) return Number.MAX_SAFE_INTEGER;
  // One nano-USD less, for rounding.
  const left = headroom - input - 1n;
  const tokens = left <= 0n ? 0n : (left * TOKENS_PER_PRICE) / perToken;
  return Number(tokens < BigInt(Number.MAX_SAFE_INTEGER) ? tokens : BigInt(Number.MAX_SAFE_INTEGER));
}

/** The rates under all of the prices, without tiers that begin above this many tokens of input. */
function ratesUnder(prices: readonly ContextPrices[], inputTokens: number): readonly TokenPrices[] {
  return prices.flatMap((price) => ratesUpTo(inputTokens, price));
}

function ratesUpTo(inputTokens: number, price: ContextPrices): readonly TokenPrices[] {
  if (price.tiers.length === 0) return [price];
  return [price, ...price.tiers.filter((tier) => inputTokens > tier.aboveInputTokens)];
}

const INPUT = ['input'] as const;
const OUTPUT = ['output'] as const;
const INPUT_CLASSES = ['input', 'cacheRead', 'cacheWrite', 'cacheWrite1h'] as const;

function usualTokens({ maxTokens, choices, usualTokens: usual = USUAL_OUTPUT_TOKENS }: OutputSize): number {
  return Math.min(maxTokens ?? usual, usual) * choices;
}

function estimate(
  { inputTokens, outputTokens, toolCostNanoUsd = 0n }: SizeInTokens,
  inputRate: NanoUsd,
  outputRate: NanoUsd,
): Estimate {
  const exact = BigInt(inputTokens) * inputRate + BigInt(outputTokens) * outputRate;
  const costNanoUsd = divideHalfUp(exact, TOKENS_PER_PRICE) + toolCostNanoUsd;
  return { inputTokens, outputTokens, costNanoUsd };
}

interface SizeInTokens extends Pick<RequestSize, 'toolCostNanoUsd'> {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

function highest(rates: readonly TokenPrices[], classes: readonly TextClass[]): NanoUsd {
  let most = 0n;
  for (const rate of rates) {
    for (const tokenClass of classes) if (rate[tokenClass] > most) most = rate[tokenClass];
  }
  return most;
}
