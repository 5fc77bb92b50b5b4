import type { BudgetedPolicy, LeaseBook } from '@weighbridge/budget';
import { affordableOutput, hardEstimate } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { RoutableConnector, RoutableModel } from '@weighbridge/state';
import { takesNewerLimit } from '../control/limitNames.ts';
import type { Target } from '../control/target.ts';
import { type GenerationRequest, leastLimit, setLimits } from '../formats/generationRequest.ts';
import type { HardTerms } from '../formats/hardMode.ts';
import { modelOutputLimit } from './reservationEstimate.ts';
import { allowedPrices, toolCost } from './servicePrices.ts';

/** The smallest limit that headroom may set: a shorter response is no response. */
export const LEAST_OUTPUT = 16;
/** A shorter response is likely to be cut off: headroom for it is waited for while others hold it. */
const USEFUL_OUTPUT = 1_024;
/** What a vendor says to the model in a request that no field limits, such as a compaction. */
const OWN_PROMPT_TOKENS = 1_024;
/** What the limit, the model's name and the request for usage may add to a body, in bytes. */
const LIMIT_BYTES = 512;

/**
 * The request as it goes out under a hard budget: with an output limit in the one field that the vendor honours, and without
 * the tools that nothing bounds. If the request sets no limit, it is the model's own or what the headroom of the budgets
 * affords. The input is known to the byte: requests whose input is not were refused.
 */
export async function limitOutput(
  budget: Pick<LeaseBook, 'headroom'>,
  budgets: readonly BudgetedPolicy[],
  generation: GenerationRequest,
  terms: HardTerms,
  target: Target,
  /** The limit that the request has was set by its translation, for a vendor that needs one: the headroom may lower it. */
  hasDefaultLimit = false,
): Promise<GenerationRequest> {
  const { operation, output } = generation;
  const { toolUses, removedTools, cuts } = terms;
  const hard = {
    addedInputTokens: terms.addedTokens + terms.contextPasses * contextWindow(terms, target.model),
    toolUses,
    removedTools,
    cuts,
  };
  if (!output)
    return { ...generation, hard: { ...hard, limit: undefined, removedFields: terms.removedFields } };
  if (operation.outputLimits?.length === 0) {
    const maxTokens = ownLimit(target.model);
    const addedInputTokens = hard.addedInputTokens + OWN_PROMPT_TOKENS;
    return {
      ...generation,
      output: { ...output, maxTokens },
      hard: { ...hard, addedInputTokens, limit: undefined, removedFields: terms.removedFields },
    };
  }
  const field = limitField(generation, target.connector);
  const others = setLimits(generation).filter((name) => name !== field);
  const asked = leastLimit(generation);
  const tokens =
    asked !== undefined && !hasDefaultLimit
      ? asked
      : await affordableTokens(budget, budgets, { ...generation, hard }, target, asked);
  return {
    ...generation,
    output: { ...output, maxTokens: tokens },
    hard: { ...hard, limit: { field, tokens }, removedFields: [...terms.removedFields, ...others] },
  };
}

/** The most that a model writes where no field limits it. Throws a 400 if no one knows that. */
function ownLimit({ id, maxOutputTokens }: RoutableModel): number {
  if (maxOutputTokens !== undefined) return maxOutputTokens;
  const message = `No field of this request limits its output, and the catalog does not say how much ${id} writes at most, so the cost cannot be known in advance. Use a model whose max_output_tokens is known.`;
  throw new AppError('invalid_request', 'not_allowed_in_hard_mode', message, { param: 'model' });
}

async function affordableTokens(
  budget: Pick<LeaseBook, 'headroom'>,
  budgets: readonly BudgetedPolicy[],
  {
    body,
    asked,
    output,
    hard,
  }: Pick<GenerationRequest, 'body' | 'asked' | 'output'> & {
    readonly hard: { readonly addedInputTokens: number; readonly toolUses: HardTerms['toolUses'] };
  },
  target: Target,
  /** Undefined: what the model writes at most. */
  wanted: number | undefined,
): Promise<number> {
  const most = Math.min(modelOutputLimit(target.model), wanted ?? Number.POSITIVE_INFINITY);
  const choices = output?.choices ?? 1;
  const size = {
    inputBytes: body.length + LIMIT_BYTES,
    addedInputTokens: hard.addedInputTokens,
    toolCostNanoUsd: toolCost(hard.toolUses, target),
    output: { maxTokens: most, choices },
  };
  const prices = allowedPrices(asked, target);
  const costOf = (maxTokens: number) => {
    return hardEstimate({ ...size, output: { choices, maxTokens } }, prices).costNanoUsd;
  };
  const inputTokens = size.inputBytes + size.addedInputTokens;
  const tokensOf = (maxTokens: number) => BigInt(inputTokens + maxTokens * choices);
  const [useful, least] = [Math.min(most, USEFUL_OUTPUT), Math.min(most, LEAST_OUTPUT)];
  const headroom = await budget.headroom(budgets, {
    nanoUsd: { useful: costOf(useful), least: costOf(least) },
    tokens: { useful: tokensOf(useful), least: tokensOf(least) },
  });
  const affordable = Math.min(
    headroom.nanoUsd === undefined ? most : affordableOutput(size, prices, headroom.nanoUsd),
    headroom.tokens === undefined ? most : Math.floor((Number(headroom.tokens) - inputTokens) / choices),
  );
  // With less headroom, the reservation is refused, with the figures that say why.
  return Math.min(most, Math.max(affordable, LEAST_OUTPUT));
}

function contextWindow({ contextPasses, toolUses }: HardTerms, model: RoutableModel): number {
  if (contextPasses === 0 || model.contextWindow > 0) return model.contextWindow;
  const [tool] = Object.keys(toolUses);
  const what = tool === undefined ? 'Results of tools that the vendor ran' : `The tool ${tool}`;
  throw new AppError(
    'invalid_request',
    'not_allowed_in_hard_mode',
    `${what} may fill the context window of ${model.id}, whose size is not in the catalog, so the cost cannot be known in advance. Remove it, or use a model whose context window is known.`,
    { param: tool === undefined ? 'messages' : 'tools' },
  );
}

/** The limit field that the vendor honours. */
export function limitField(
  { operation }: Pick<GenerationRequest, 'operation'>,
  { provider }: Pick<RoutableConnector, 'provider'>,
): string {
  const [older = 'max_tokens', newer] = operation.outputLimits ?? [];
  return newer !== undefined && takesNewerLimit(provider) ? newer : older;
}
