import { type Money, moneyFromNano, PRICE_FIELDS, type PriceField, TOKEN_CLASSES } from '@weighbridge/domain';
import {
  type ListEntry,
  ListEntryError,
  type ListedConditions,
  type ListedPrice,
  type ListedRates,
  wholeTiers,
} from '@weighbridge/price-lists';

/** A model of another project's list, in the fields of our catalog. */
export interface ImportedModel {
  /** `<provider>/<model>` */
  readonly model: string;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: readonly string[];
  readonly deprecated_at?: string;
  readonly price: ImportedPrice;
}

type ImportedTier = ImportedRates & { readonly above_input_tokens: number };

export type ImportedPrice = ImportedRates & {
  readonly tiers: readonly ImportedTier[];
  /** An absent condition is the one that the list price covers. */
  readonly variants?: readonly (ImportedRates & {
    readonly service_tier?: string;
    readonly speed?: string;
    readonly geography?: string;
    readonly tiers?: readonly ImportedTier[];
  })[];
  /** Per use, by tool. */
  readonly tool_prices?: Readonly<Record<string, Money>>;
};

type ImportedRates = Readonly<Record<PriceField<'input' | 'output'>, Money>> &
  Readonly<Partial<Record<PriceField, Money>>>;

/** The models that can be imported, and the names of the others by reason. */
export interface ImportResult {
  readonly models: readonly ImportedModel[];
  readonly skipped: Readonly<Record<string, readonly string[]>>;
}

/** Reads each entry of a list; one that can't be imported is reported and skipped. */
export function importModels(
  entriesOf: (leaveOut: (reason: string, name: string) => void) => Iterable<ListEntry>,
): ImportResult {
  const models = new Map<string, ImportedModel>();
  const skipped: Record<string, string[]> = {};
  const skip = (reason: string, name: string) => {
    skipped[reason] = [...(skipped[reason] ?? []), name];
  };
  for (const entry of entriesOf(skip)) {
    try {
      const model = importedModel(entry);
      if (models.has(entry.id)) skip('listed more than once', entry.key);
      else models.set(entry.id, model);
    } catch (error) {
      if (!(error instanceof ListEntryError)) throw error;
      skip(error.message, entry.key);
    }
  }
  const byId = [...models.values()].sort((one, other) => (one.model < other.model ? -1 : 1));
  return { models: byId, skipped };
}

function importedModel({ id, describe, read, readConditions }: ListEntry): ImportedModel {
  if (!/^(?!router\/)[a-z0-9-]+\//.test(id)) throw new ListEntryError('no provider');
  const listed = describe();
  if (!listed) throw new ListEntryError('no context window');
  if (listed.alsoPriced.includes('request')) throw new ListEntryError('also priced per request');
  if (listed.alsoPriced.includes('reasoning')) throw new ListEntryError('reasoning has a separate price');
  const price = read();
  if (price?.rates.output === undefined) throw new ListEntryError('no price');
  // It may mean free, or that it is unknown.
  if (price.rates.input === 0n && price.rates.output === 0n)
    throw new ListEntryError('a price of zero, which may mean unknown');
  return {
    model: id,
    context_window: listed.contextWindow,
    max_output_tokens: listed.maxOutputTokens,
    capabilities: listed.capabilities,
    ...(listed.endsOn !== undefined && { deprecated_at: `${listed.endsOn}T00:00:00.000Z` }),
    price: importedPrice(price, readConditions?.()),
  };
}

/** Throws a `ListEntryError` without a price of input and output. */
export function importedPrice(price: ListedPrice, conditions?: ListedConditions): ImportedPrice {
  const { input, output } = price.rates;
  if (input === undefined || output === undefined) throw new ListEntryError('no price');
  const { variants = [], toolPrices = {} } = conditions ?? {};
  const tools = Object.entries(toolPrices).map(([tool, perUse]) => [tool, moneyFromNano(perUse)]);
  return {
    ...importedRates(price.rates),
    tiers: importedTiers(price),
    ...(variants.length > 0 && {
      variants: variants.map(({ serviceTier, speed, geography, ...prices }) => ({
        ...(serviceTier !== undefined && { service_tier: serviceTier }),
        ...(speed !== undefined && { speed }),
        ...(geography !== undefined && { geography }),
        ...importedRates(prices.rates),
        ...(prices.tiers.length > 0 && { tiers: importedTiers(prices) }),
      })),
    }),
    ...(tools.length > 0 && { tool_prices: Object.fromEntries(tools) }),
  };
}

function importedTiers(price: ListedPrice): ImportedTier[] {
  return wholeTiers(price).map(({ aboveInputTokens, rates }) => ({
    above_input_tokens: aboveInputTokens,
    ...importedRates(rates),
  }));
}

/** Without the classes that are not stated: to the service, an absent field is not null. */
function importedRates(rates: ListedRates): ImportedRates {
  const fields = TOKEN_CLASSES.flatMap((name) => {
    const price = rates[name];
    return price === undefined ? [] : [[PRICE_FIELDS[name], moneyFromNano(price)]];
  });
  return Object.fromEntries(fields) as ImportedRates;
}
