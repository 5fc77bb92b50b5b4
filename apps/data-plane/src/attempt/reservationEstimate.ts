import {
  balancedEstimate,
  balancedTokens,
  type Estimate,
  hardEstimate,
  type NanoUsd,
  type OutputSize,
  USUAL_OUTPUT_TOKENS,
} from '@weighbridge/domain';
import { priceAt, type RoutableModel } from '@weighbridge/state';
import { cappedCost } from '@weighbridge/usage';
import type { Target } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { asksForMedia } from '../formats/requestTraits.ts';
import { ADMITS, expectedToolUses } from '../formats/serverTools.ts';
import { hasUnknownInput } from './hiddenUsage.ts';
import type { ModelRequest, PreparedRequest } from './preparedRequest.ts';
import { allowedPrices, expectedPrices, toolCost } from './servicePrices.ts';

/** What an attempt reserves, and is charged if its real cost stays unknown. */
export function estimateReservation(
  usualTokens: (model: string) => number | undefined,
  { body, modelRequest }: PreparedRequest,
): Estimate {
  if (!modelRequest) throw new Error('only a request to a model is estimated');
  const { model, generation, alternatives = [] } = modelRequest;
  const { hard, asked } = generation;
  const media = !hard && asksForMedia(generation);
  const usual = usualTokens(model.id);
  const size = {
    inputBytes: body?.length ?? 0,
    addedInputTokens: hard ? hard.addedInputTokens : unknownInput(modelRequest),
    toolCostNanoUsd: hard
      ? toolCost(hard.toolUses, modelRequest)
      : expectedToolCost(generation, modelRequest),
    output: expectedOutput(generation, model, media ? usualWithMedia(usual) : usual),
  };
  if (hard) {
    const prices = [modelRequest, ...alternatives].flatMap((target) => allowedPrices(asked, target));
    return capped(hardEstimate(size, prices));
  }
  let dearest = balancedEstimate(size, expectedPrices(asked, modelRequest, media));
  for (const target of alternatives) {
    const other = balancedEstimate(size, expectedPrices(asked, target, media));
    if (other.costNanoUsd > dearest.costNanoUsd) dearest = other;
  }
  return capped(dearest);
}

/** A background response may stay charged at its reservation, which is for all that it may read. */
function unknownInput(modelRequest: ModelRequest): number | undefined {
  const { isBackground } = modelRequest.generation;
  return isBackground && hasUnknownInput(modelRequest) ? largestInput(modelRequest) : undefined;
}

/** What a model usually writes is mostly short texts, which say nothing about the length of sounds and images. */
function usualWithMedia(usualTokens = 0): number {
  return Math.max(usualTokens, USUAL_OUTPUT_TOKENS);
}

function capped({ inputTokens, outputTokens, costNanoUsd }: Estimate): Estimate {
  return { inputTokens, outputTokens, costNanoUsd: cappedCost(costNanoUsd) };
}

/** Most models have no tools that the vendor bills, and most requests no tools: they are not looked through. */
function expectedToolCost(generation: GenerationRequest, target: Target): NanoUsd | undefined {
  if (!generation.spans.has('tools') && !generation.operation.namesObjects) return undefined;
  const { toolPrices } = priceAt(target.model, target.connector).price;
  const uses = expectedToolUses(generation, Object.keys(toolPrices), ADMITS);
  return uses && toolCost(uses, target);
}

/** Of a model whose context window is not known. */
const UNKNOWN_CONTEXT_WINDOW = 1_000_000;

/** The context window of the model, or of the largest of those that may answer. */
export function largestInput({ model, alternatives = [] }: ModelRequest): number {
  const windows = [model, ...alternatives.map((other) => other.model)].map(
    ({ contextWindow }) => contextWindow,
  );
  return Math.max(...windows) || UNKNOWN_CONTEXT_WINDOW;
}

/** The output limit of a model whose own limit is unknown. */
const UNKNOWN_MODEL_OUTPUT = 32_768;

/** The most output tokens of a model, for a request that sets no limit. */
export function modelOutputLimit({ maxOutputTokens }: Pick<RoutableModel, 'maxOutputTokens'>): number {
  return maxOutputTokens ?? UNKNOWN_MODEL_OUTPUT;
}

/** The tokens of a request on a model, as limits per minute count them. */
export function rateTokens(
  usualTokens: (model: string) => number | undefined,
  generation: Pick<GenerationRequest, 'output' | 'isBackground' | 'body' | 'operation'>,
  model: Pick<RoutableModel, 'id' | 'maxOutputTokens'>,
): number {
  return balancedTokens({
    inputBytes: generation.operation.isBilled ? generation.body.length : 0,
    output: expectedOutput(generation, model, usualTokens(model.id)),
  });
}

/**
 * How long a response is expected to get: by the request's own limit, else by what its model usually writes. A background
 * response may stay charged at its reservation, which is for the longest that it can get.
 */
function expectedOutput(
  { output, isBackground }: Pick<GenerationRequest, 'output' | 'isBackground'>,
  model: Pick<RoutableModel, 'maxOutputTokens'>,
  usualTokens: number | undefined,
): OutputSize | undefined {
  if (!output) return undefined;
  const { maxTokens, choices } = output;
  return {
    maxTokens,
    choices,
    usualTokens: isBackground ? (maxTokens ?? modelOutputLimit(model)) : usualTokens,
  };
}
