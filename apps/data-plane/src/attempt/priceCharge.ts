import {
  addTokens,
  type Cost,
  costOf,
  isStandard,
  type MeteredUsage,
  type OtherUsage,
  type ServiceConditions,
  serviceConditions,
  type ToolUses,
  totalInputTokens,
} from '@weighbridge/domain';
import { priceAt, type RoutableModel, type RoutingTable } from '@weighbridge/state';
import { type AttemptEnd, cutCost, LIST_PRICE_DETAILS } from '@weighbridge/usage';
import { serverToolsOf } from '../formats/serverTools.ts';
import { answeredModel, type ChargedModel, otherModel } from './answeredModel.ts';
import { billedTools } from './billedTools.ts';
import type { Charge } from './charge.ts';
import type { ModelRequest } from './preparedRequest.ts';

/** A charge with its price. */
export type PricedCharge = Pick<AttemptEnd, 'usage' | 'estimated' | 'costNanoUsd' | 'details'>;

/** The cost of what an attempt used: the model that answered, and the conditions that it answered under, decide it. */
export function priceCharge(
  charge: Charge,
  request: ModelRequest,
  table: RoutingTable | undefined,
): PricedCharge {
  const { estimated, others } = charge;
  const answered = answeredModel(charge, request, table);
  const main = mainCost(charge, request, answered.model);
  let { usage } = charge;
  let { costNanoUsd } = main.cost;
  const unpriced = [...answered.unpriced, ...main.cost.unpriced, ...beyondCatalog(charge, request)];
  for (const other of others) {
    const priced = costOfOther(other, main.usage.service, answered, request, table);
    usage = addTokens(usage, other.tokens);
    costNanoUsd += priced.costNanoUsd;
    unpriced.push(...priced.unpriced);
  }
  const { service, toolUses } = main.usage;
  const isListed =
    isStandard(service) && toolUses === charge.toolUses && isEmpty(toolUses) && answered.pricedModel === '';
  const details =
    isListed && unpriced.length === 0
      ? LIST_PRICE_DETAILS
      : { service, toolUses, unpriced: [...new Set(unpriced)], pricedModel: answered.pricedModel };
  return { usage, estimated, costNanoUsd: cutCost(costNanoUsd), details };
}

/**
 * What is more than the catalog says that the model can do in one pass. It is charged in full and marked: the catalog may be stale, or
 * the vendor wrong. Tools that vendors run make several passes, and what writes no text takes several inputs.
 */
function beyondCatalog(
  { usage, estimated, toolUses, others }: Charge,
  { model, generation }: ModelRequest,
): readonly string[] {
  const { output } = generation;
  if (estimated || !output || others.length > 0 || !isEmpty(toolUses)) return [];
  const { contextWindow, maxOutputTokens } = model;
  const written = usage.outputTokens + usage.outputAudioTokens + usage.outputImageTokens;
  const isInputBeyond = contextWindow > 0 && totalInputTokens(usage) > contextWindow;
  const isOutputBeyond = maxOutputTokens !== undefined && written > maxOutputTokens * output.choices;
  if (!isInputBeyond && !isOutputBeyond) return [];
  return [
    ...(isInputBeyond ? ['beyond_catalog:input_tokens'] : []),
    ...(isOutputBeyond ? ['beyond_catalog:output_tokens'] : []),
  ];
}

interface PricedUsage {
  readonly usage: MeteredUsage;
  readonly cost: Cost;
}

/** What the response says it was served under counts; where it says nothing, the dearer of the list price and what was asked. */
function mainCost(charge: Charge, request: ModelRequest, model: RoutableModel): PricedUsage {
  const { said } = charge;
  const { asked } = request.generation;
  const { price } = priceAt(model, request.connector);
  const uses = billedUses(charge, price.toolPrices);
  const toolUses = billedTools(uses, () => serverToolsOf(request.generation));
  const costUnder = (service: ServiceConditions): PricedUsage => {
    const usage = { tokens: charge.usage, service, toolUses };
    return { usage, cost: costOf(usage, price, model.dearest) };
  };
  const listed = costUnder(serviceConditions(said.serviceTier, said.speed, said.geography));
  const assumed = serviceConditions(
    said.serviceTier ?? asked.serviceTier,
    said.speed ?? asked.speed,
    said.geography ?? asked.geography,
  );
  if (isStandard(assumed)) return listed;
  const other = costUnder(assumed);
  return other.cost.costNanoUsd > listed.cost.costNanoUsd ? other : listed;
}

/** Images that are billed by token are not billed by use too, unless the price list has a price per use. */
function billedUses({ toolUses, others }: Charge, toolPrices: object): ToolUses {
  if (others.length === 0 || !('image_generation' in toolUses)) return toolUses;
  if (Object.hasOwn(toolPrices, 'image_generation')) return toolUses;
  const { image_generation: _, ...billed } = toolUses;
  return billed;
}

function costOfOther(
  { model, tokens }: OtherUsage,
  service: ServiceConditions,
  answered: ChargedModel,
  request: ModelRequest,
  table: RoutingTable | undefined,
): Cost {
  const usage: MeteredUsage = { tokens, service, toolUses: {} };
  const cost = (of: RoutableModel) => costOf(usage, priceAt(of, request.connector).price, of.dearest);
  if (model === '') return cost(answered.model);
  const { models, unpriced } = otherModel(model, request, table);
  let dearest = cost(answered.model);
  if (models.length > 0) {
    dearest = models.map(cost).reduce((most, one) => (one.costNanoUsd > most.costNanoUsd ? one : most));
  }
  return { costNanoUsd: dearest.costNanoUsd, unpriced: [...unpriced, ...dearest.unpriced] };
}

function isEmpty(toolUses: ToolUses): boolean {
  for (const _ in toolUses) return false;
  return true;
}
