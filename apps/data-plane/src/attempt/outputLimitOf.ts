import type { OutputLimit } from '@weighbridge/budget';
import type { Estimate } from '@weighbridge/domain';
import type { RoutableConnector } from '@weighbridge/state';
import { type GenerationRequest, setLimits } from '../formats/generationRequest.ts';
import { LEAST_OUTPUT, limitField } from './limitOutput.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import { estimateReservation } from './reservationEstimate.ts';

/** The field of a request that limits its output, and how the reservation follows from it; undefined without an output. */
export function outputLimitOf(
  usualTokens: (model: string) => number | undefined,
  prepared: PreparedRequest,
  { inputTokens, outputTokens, costNanoUsd }: Estimate,
): OutputLimit | undefined {
  const { modelRequest, connector, translation } = prepared;
  if (!modelRequest?.generation.output) return undefined;
  const { generation } = modelRequest;
  if (generation.operation.outputLimits?.length === 0) return undefined;
  const { choices } = modelRequest.generation.output;
  const outputWithin = (nanoUsd: bigint): bigint => {
    const output = { choices, maxTokens: 0 };
    const without = { ...modelRequest, generation: { ...generation, output } };
    const inputNanoUsd = estimateReservation(usualTokens, {
      ...prepared,
      modelRequest: without,
    }).costNanoUsd;
    const outputNanoUsd = costNanoUsd - inputNanoUsd;
    if (outputNanoUsd <= 0n || nanoUsd <= inputNanoUsd) return 0n;
    return (BigInt(outputTokens) * (nanoUsd - inputNanoUsd)) / outputNanoUsd;
  };
  return {
    ...(translation?.limit ?? ownLimit(generation, connector)),
    within(amount, unit) {
      const tokens = unit === 'tokens' ? amount - BigInt(inputTokens) : outputWithin(amount);
      const limit = roundDown(Math.floor(Number(tokens) / choices));
      return limit < LEAST_OUTPUT ? undefined : limit;
    },
  };
}

function ownLimit(
  generation: GenerationRequest,
  connector: RoutableConnector,
): Pick<OutputLimit, 'field' | 'isSet'> {
  const set = setLimits(generation);
  return {
    field: set.length > 0 ? set.join(' and ') : limitField(generation, connector),
    isSet: set.length > 0,
  };
}

/** To two digits: the estimate is no more precise. */
function roundDown(tokens: number): number {
  const unit = 10 ** Math.max(0, String(tokens).length - 2);
  return Math.floor(tokens / unit) * unit;
}
