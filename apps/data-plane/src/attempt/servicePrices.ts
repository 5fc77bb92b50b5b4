import {
  type ContextPrices,
  costOf,
  type NanoUsd,
  NO_TOKENS,
  pricesFor,
  type ServiceConditions,
  STANDARD_SERVICE,
  serviceConditions,
  type TokenPrices,
  type ToolUses,
} from '@weighbridge/domain';
import { priceAt, type RoutableModel } from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import type { AskedService } from '../formats/generationRequest.ts';

/**
 * The prices under the conditions that the request asks for: what it is expected to cost. One that asks for other output than
 * text may get nothing else.
 */
export function expectedPrices(
  asked: AskedService,
  { model, connector }: Target,
  asksForMedia: boolean,
): ContextPrices {
  const { price } = priceAt(model, connector);
  const { serviceTier, speed, geography } = asked;
  const isStandard = serviceTier === undefined && speed === undefined && geography === undefined;
  const prices = isStandard
    ? price
    : pricesFor(serviceConditions(tierName(serviceTier), speed, geography), price, model.dearest);
  if (!asksForMedia) return prices;
  return withDearestOutput(prices, ({ outputImage, outputAudio }) => [outputImage, outputAudio]);
}

/** With the highest price of output: its own, or that of one of `others`. */
function withDearestOutput(
  prices: ContextPrices,
  others: (rates: TokenPrices) => readonly (NanoUsd | undefined)[],
): ContextPrices {
  const dearestOutput = <Rates extends TokenPrices>(rates: Rates): Rates => {
    let { output } = rates;
    for (const other of others(rates)) if (other !== undefined && other > output) output = other;
    return output === rates.output ? rates : { ...rates, output };
  };
  return { ...dearestOutput(prices), tiers: prices.tiers.map(dearestOutput) };
}

/** The prices under every condition that the request allows: a hard budget reserves at the dearest. */
export function allowedPrices(asked: AskedService, { model, connector }: Target): ContextPrices[] {
  const { price } = priceAt(model, connector);
  const known = price.variants.map(({ service }) => service);
  const prices: ContextPrices[] = [];
  for (const serviceTier of allowedTiers(asked.serviceTier, known, connector.provider)) {
    // A vendor out of fast capacity serves at its usual speed.
    for (const speed of new Set(['', conditionOf({ speed: asked.speed }).speed])) {
      for (const geography of allowedGeographies(asked.geography, known)) {
        const served = pricesFor({ serviceTier, speed, geography }, price, model.dearest);
        prices.push(withMediaOutput(served, model));
      }
    }
  }
  return prices;
}

/** A model that writes images or audio may answer with nothing else. */
function withMediaOutput(prices: ContextPrices, { capabilities, dearest }: RoutableModel): ContextPrices {
  const writesImages = capabilities.includes('image_output');
  const writesAudio = capabilities.includes('audio_output');
  if (!writesImages && !writesAudio) return prices;
  return withDearestOutput(prices, ({ outputImage, outputAudio }) => [
    writesImages ? (outputImage ?? dearest.media.outputImage) : undefined,
    writesAudio ? (outputAudio ?? dearest.media.outputAudio) : undefined,
  ]);
}

/** What the vendor's tools cost besides tokens. A tool without a price counts at the dearest that is known. */
export function toolCost(toolUses: ToolUses, { model, connector }: Target): NanoUsd {
  const usage = { tokens: NO_TOKENS, service: STANDARD_SERVICE, toolUses };
  return costOf(usage, priceAt(model, connector).price, model.dearest).costNanoUsd;
}

/** OpenAI's two names of one tier: the answer says `priority` for both (reference of `service_tier`). */
function tierName(asked: string | undefined): string | undefined {
  return asked?.toLowerCase() === 'fast' ? 'priority' : asked;
}

function conditionOf({
  tier,
  speed,
  geography,
}: {
  tier?: string | undefined;
  speed?: string | undefined;
  geography?: string | undefined;
}): ServiceConditions {
  return serviceConditions(tierName(tier), speed, geography);
}

/** Tiers that a request must name to get. */
const ONLY_IF_ASKED = new Set(['batch', 'ultrafast']);
/**
 * Without a tier, or with `auto`, these serve by what an account has: OpenAI by the setting of the project, Anthropic from
 * priority capacity that was bought. Elsewhere, the default is the standard.
 */
const CHOOSES_TIER = new Set(['openai', 'azure', 'anthropic']);

function allowedTiers(
  asked: string | undefined,
  known: readonly ServiceConditions[],
  provider: string,
): Set<string> {
  const isAuto = asked === undefined ? CHOOSES_TIER.has(provider) : asked.toLowerCase() === 'auto';
  // A full tier falls back to the standard.
  if (!isAuto) return new Set(['', conditionOf({ tier: asked }).serviceTier]);
  const tiers = known.map(({ serviceTier }) => serviceTier).filter((tier) => !ONLY_IF_ASKED.has(tier));
  return new Set(['', ...tiers]);
}

/** Without a geography, the default of the vendor's workspace counts. */
function allowedGeographies(asked: string | undefined, known: readonly ServiceConditions[]): Set<string> {
  if (asked !== undefined) return new Set([conditionOf({ geography: asked }).geography]);
  return new Set(['', ...known.map(({ geography }) => geography)]);
}
