import { balancedEstimate, type Estimate, hardEstimate, type OutputSize } from '@weighbridge/domain';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt } from '../control/routingTable.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { PreparedRequest } from './plan.ts';
import { cappedCost } from './usageEvent.ts';

/** What an attempt reserves, and is charged if its real cost stays unknown. */
export function estimateReservation(
  usualTokens: (model: string) => number | undefined,
  { isHard }: Pick<ResolvedKey, 'isHard'>,
  { body, modelRequest }: PreparedRequest,
): Estimate {
  if (!modelRequest) throw new Error('only a request to a model is estimated');
  const { model, connector, generation } = modelRequest;
  const size = {
    inputBytes: body?.length ?? 0,
    addedInputTokens: generation.addedInputTokens,
    output: expectedOutput(generation, usualTokens(model.id)),
  };
  const { price } = priceAt(model, connector);
  const estimate = isHard && !model.free ? hardEstimate(size, price) : balancedEstimate(size, price);
  const { inputTokens, outputTokens, costNanoUsd } = estimate;
  return { inputTokens, outputTokens, costNanoUsd: cappedCost(costNanoUsd) };
}

/** How long a response is expected to get: by the request's own limit, else by what its model usually writes. */
export function expectedOutput(
  { output }: Pick<GenerationRequest, 'output'>,
  usualTokens: number | undefined,
): OutputSize | undefined {
  if (!output) return undefined;
  const { maxTokens, choices } = output;
  return { maxTokens, choices, usualTokens: output.usualTokens ?? usualTokens };
}
