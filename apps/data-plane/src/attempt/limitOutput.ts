import { affordableOutput, hardEstimate } from '@weighbridge/domain';
import type { LeaseBook } from '../budget/leaseBook.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt, type RoutableConnector } from '../control/routingTable.ts';
import type { Target } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { addedInputTokens } from '../formats/hardMode.ts';

/** The output limit of a model whose own limit is unknown. */
const UNKNOWN_MODEL_OUTPUT = 32_768;
/** The smallest limit that headroom may set: a shorter response is no response. */
const LEAST_OUTPUT = 16;
/** A shorter response is likely to be cut off: headroom for it is waited for while others hold it. */
const USEFUL_OUTPUT = 1_024;
/** What the limit, the model's name and the request for usage may add to a body, in bytes. */
const LIMIT_BYTES = 512;

/**
 * Sets an output limit, which every response under a hard budget has: if the request sets none, it is the model's own or
 * what the headroom of the budgets affords. The input is known to the byte: requests whose input is not were refused.
 */
export async function limitOutput(
  budget: Pick<LeaseBook, 'headroom'>,
  key: ResolvedKey,
  generation: GenerationRequest,
  { model, connector }: Target,
): Promise<GenerationRequest> {
  const limited = { ...generation, addedInputTokens: addedInputTokens(generation.body.toBuffer()) };
  const { output } = generation;
  if (!output || output.maxTokens !== undefined) return limited;
  const most = model.maxOutputTokens ?? UNKNOWN_MODEL_OUTPUT;
  const size = {
    inputBytes: generation.body.length + LIMIT_BYTES,
    addedInputTokens: limited.addedInputTokens,
    output,
  };
  const { price } = priceAt(model, connector);
  const costOf = (tokens: number) => {
    return hardEstimate({ ...size, output: { ...output, maxTokens: tokens } }, price).costNanoUsd;
  };
  const headroom = await budget.headroom(key.budgets, {
    useful: costOf(Math.min(most, USEFUL_OUTPUT)),
    least: costOf(Math.min(most, LEAST_OUTPUT)),
  });
  const affordable = headroom === undefined ? most : affordableOutput(size, price, headroom);
  // With less headroom, the reservation is refused, with the figures that say why.
  const tokens = Math.min(most, Math.max(affordable, LEAST_OUTPUT));
  const field = limitField(generation, connector);
  return { ...limited, output: { ...output, maxTokens: tokens }, limit: { field, tokens } };
}

/** The limit field that the upstream takes: OpenAI's newer models refuse the older name. */
function limitField({ operation }: GenerationRequest, { provider }: RoutableConnector): string {
  const [older = 'max_tokens', newer] = operation.outputLimits ?? [];
  return newer !== undefined && TAKES_NEWER_NAME.has(provider) ? newer : older;
}

const TAKES_NEWER_NAME = new Set(['openai', 'azure']);
