import {
  genaiPricesEntries,
  isGenaiPrices,
  isLiteLlm,
  isModelsDev,
  type ListEntry,
  ListEntryError,
  type ListedModel,
  type ListedPrice,
  litellmEntries,
  modelsDevEntries,
} from '@weighbridge/price-lists';

type FeedFormat = 'genai-prices' | 'models.dev' | 'litellm';

/** A model that the feed has and that can't be used, and why. */
interface RefusedEntry {
  readonly model: string;
  readonly reason: string;
}

export interface FeedPrices {
  readonly format: FeedFormat;
  /** The prices of the wanted models, by model id. */
  readonly prices: ReadonlyMap<string, ListedPrice>;
  /** The models that the catalog lacks and that could be added, by model id. */
  readonly offered: ReadonlyMap<string, { readonly price: ListedPrice; readonly model: ListedModel }>;
  readonly refused: readonly RefusedEntry[];
  /** How many entries the feed has, wanted or not. */
  readonly entries: number;
}

/** A document that is refused as a whole; the message is for the operator. */
export class FeedError extends Error {
  override readonly name = 'FeedError';
}

/** Ten times what the largest of these lists has. */
const MAX_ENTRIES = 50_000;
/** If so much of what is wanted can't be read, the document is not what it looks like. */
const MAX_REFUSED_SHARE = 0.5;

/**
 * Reads the wanted models of a feed, and those that may be added. Throws a `FeedError` if the document is refused as a whole; what
 * can't be read of models that the catalog lacks is left out.
 */
export function readFeed(
  text: string,
  wanted: ReadonlySet<string>,
  now: Date,
  mayBeAdded: (id: string) => boolean = () => false,
): FeedPrices {
  const { format, entries } = documentOf(parse(text), now);
  const prices = new Map<string, ListedPrice>();
  const refused = new Map<string, string>();
  const newPrices = new Map<string, ListedPrice>();
  const newRefused = new Map<string, string>();
  const described = new Map<string, ListedModel>();
  let count = 0;
  for (const entry of entries) {
    count++;
    if (count > MAX_ENTRIES) throw new FeedError(`it has more than ${MAX_ENTRIES} models`);
    if (wanted.has(entry.id)) readEntry(entry, prices, refused);
    else if (mayBeAdded(entry.id)) {
      readEntry(entry, newPrices, newRefused);
      const model = described.get(entry.id) ?? entry.describe();
      if (model && mayBeNew(model, now)) described.set(entry.id, model);
    }
  }
  if (refused.size > 0 && refused.size > (refused.size + prices.size) * MAX_REFUSED_SHARE) {
    const [[model, reason] = ['', '']] = refused;
    throw new FeedError(
      `${refused.size} of the ${refused.size + prices.size} models that the catalog has can't be read, such as ${model}: ${reason}`,
    );
  }
  const listed = [...refused].map(([model, reason]) => ({ model, reason }));
  const offered = new Map(
    [...newPrices].flatMap(([id, price]) => {
      const model = described.get(id);
      return model ? [[id, { price, model }] as const] : [];
    }),
  );
  return { format, prices, offered, refused: listed, entries: count };
}

function readEntry(
  { id, read }: ListEntry,
  prices: Map<string, ListedPrice>,
  refused: Map<string, string>,
): void {
  try {
    const price = read();
    if (!price || refused.has(id)) return;
    const other = prices.get(id);
    if (other && !isSame(other, price)) throw new ListEntryError('it is listed twice, with other prices');
    prices.set(id, price);
  } catch (error) {
    if (!(error instanceof ListEntryError)) throw error;
    prices.delete(id);
    refused.set(id, error.message);
  }
}

/** The catalog has no price per request. */
function mayBeNew({ endsOn, isForNewRequests, alsoPriced }: ListedModel, now: Date): boolean {
  const hasEnded = endsOn !== undefined && endsOn <= now.toISOString().slice(0, 10);
  return isForNewRequests && !hasEnded && !alsoPriced.includes('request');
}

function documentOf(content: unknown, now: Date): { format: FeedFormat; entries: Iterable<ListEntry> } {
  if (isGenaiPrices(content)) return { format: 'genai-prices', entries: genaiPricesEntries(content, now) };
  if (isModelsDev(content)) return { format: 'models.dev', entries: modelsDevEntries(content) };
  if (isLiteLlm(content)) return { format: 'litellm', entries: litellmEntries(content) };
  throw new FeedError(
    "it is neither genai-prices' data.json, nor models.dev's api.json, nor LiteLLM's price map",
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new FeedError('it is not JSON');
  }
}

function isSame(a: ListedPrice, b: ListedPrice): boolean {
  return textOf(a) === textOf(b);
}

function textOf({ rates, tiers }: ListedPrice): string {
  const sorted = (of: object) => Object.entries(of).sort(([one], [other]) => (one < other ? -1 : 1));
  const all = [sorted(rates), tiers.map((tier) => [tier.aboveInputTokens, sorted(tier.rates)])];
  return JSON.stringify(all, (_key, value) => (typeof value === 'bigint' ? String(value) : value));
}
