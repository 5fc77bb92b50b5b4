import { PRICE_FIELDS, type Price, parseCloudName, parseModelId, priceOf } from '@weighbridge/domain';
import type { ListedModel, ListedPrice } from '@weighbridge/price-lists';
import { type ModelPriceRow, type ModelRow, parseNewModelId } from '../catalog/catalog.service.ts';
import { heldBecause } from './heldBecause.ts';
import { firstPrice } from './mergedPrice.ts';

/** A model that the feed has and the catalog lacks. */
export interface NewModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  readonly otherNames: readonly string[];
  readonly own: boolean;
  readonly facts: ListedModel;
  readonly price: Price;
  /** Why a person has to approve its price before anyone can use it; undefined: no one has to. */
  readonly heldBecause: string | undefined;
}

/** The most models that one document adds, and that all documents do. */
export const NEW_MODEL_LIMITS = { perDocument: 100, inAll: 1_000 } as const;

/** What names of models consist of; `ft:` is a fine-tuned model, whose name no list can know. */
const NAME = /^(?!ft:)[A-Za-z0-9](?:[A-Za-z0-9._:@/+-]{0,198}[A-Za-z0-9._:@+-])?$/;
/** How far a first price may be outside of what its provider's models cost. */
const TIMES = 10n;

/** The providers whose new models are added: those of the catalog that ships. */
export function knownProviders(models: readonly ModelRow[]): ReadonlySet<string> {
  return new Set(models.flatMap(({ shipped, provider }) => (shipped && provider !== 'mock' ? provider : [])));
}

/** Whether a model that the catalog lacks could be added. */
export function mayBeAdded(id: string, providers: ReadonlySet<string>): boolean {
  const parsed = parseModelId(id);
  if (!parsed || !providers.has(parsed.provider) || !NAME.test(parsed.name)) return false;
  try {
    parseNewModelId(id);
    return true;
  } catch {
    return false;
  }
}

/** The models to add, and how many were left for later because of the limits. */
export function newModels(
  offered: ReadonlyMap<string, { readonly price: ListedPrice; readonly model: ListedModel }>,
  models: readonly ModelRow[],
  prices: ReadonlyMap<string, ModelPriceRow>,
): { readonly added: NewModel[]; readonly left: number } {
  const names = new NamesInUse(models);
  const byFeed = models.filter(({ origin }) => origin === 'feed').length;
  const room = Math.max(0, Math.min(NEW_MODEL_LIMITS.perDocument, NEW_MODEL_LIMITS.inAll - byFeed));
  const added: NewModel[] = [];
  let left = 0;
  for (const [id, { price: stated, model }] of offered) {
    const parsed = parseModelId(id);
    const price = firstPrice(stated);
    if (!parsed || !price) continue;
    if (added.length === room) {
      left++;
      continue;
    }
    const { provider, name } = parsed;
    const ofProvider = models.filter((row) => row.provider === provider && row.shipped && !row.deleted_at);
    const taken = names.holderOf(id, name, isMaker(ofProvider));
    const otherNames = model.otherNames.filter((other) => NAME.test(other) && names.isFree(other, provider));
    const reason = taken.heldBecause ?? doubtOf(price, model, ofProvider, prices);
    added.push({
      id,
      provider,
      upstreamName: name,
      otherNames,
      own: taken.own,
      facts: model,
      price,
      heldBecause: reason,
    });
    names.add(id, [name, ...otherNames], taken.own);
  }
  return { added, left };
}

/** Whether most models of a provider are its own. */
function isMaker(models: readonly ModelRow[]): boolean {
  return models.filter(({ own }) => own).length * 2 > models.length;
}

interface Holder {
  readonly id: string;
  readonly own: boolean;
}

/** What names stand for now: a list of prices must not send their requests to another model. */
class NamesInUse {
  readonly #holders = new Map<string, Holder[]>();

  constructor(models: readonly ModelRow[]) {
    for (const { id, own, other_names, deleted_at } of models) {
      if (!deleted_at) this.add(id, [parseModelId(id)?.name ?? id, ...other_names], own);
    }
  }

  add(id: string, names: readonly string[], own: boolean): void {
    for (const name of [id, ...names]) {
      const holders = this.#holders.get(name);
      if (holders) holders.push({ id, own });
      else this.#holders.set(name, [{ id, own }]);
    }
  }

  isFree(name: string, provider: string): boolean {
    return [name, `${provider}/${name}`, ...spelledBy(name)].every((one) => !this.#holders.has(one));
  }

  /** Whether a new model is its provider's own, and why its bare name needs a person. */
  holderOf(id: string, bare: string, isOwn: boolean): { own: boolean; heldBecause: string | undefined } {
    const byId =
      this.#holders.get(id)?.[0] ?? spelledBy(bare).flatMap((one) => this.#holders.get(one) ?? [])[0];
    const holders = this.#holders.get(bare) ?? [];
    // Who makes a model keeps its bare name, whoever else serves it.
    const maker = holders.find(({ own }) => own);
    const loser = byId ?? (maker ? undefined : holders[0]);
    return {
      own: isOwn && !maker && !loser,
      heldBecause: loser && `its name stands for ${loser.id} now, and might then stand for this model`,
    };
  }
}

/** What a name stands for as the spelling of a cloud. */
function spelledBy(name: string): string[] {
  const spelled = parseCloudName(name);
  if (!spelled) return [];
  return [spelled.provider === undefined ? spelled.name : `${spelled.provider}/${spelled.name}`];
}

/** Why a first price may be wrong: nothing that was in force tells. Undefined: it is like those of its provider. */
function doubtOf(
  price: Price,
  { capabilities }: ListedModel,
  ofProvider: readonly ModelRow[],
  prices: ReadonlyMap<string, ModelPriceRow>,
): string | undefined {
  const known = ofProvider.flatMap(({ id }) => {
    const row = prices.get(id);
    const one = row && priceOf(row);
    return one ? [one] : [];
  });
  for (const name of ['input', 'output'] as const) {
    const field = PRICE_FIELDS[name];
    if (price[name] === 0n) {
      if (name === 'output' && capabilities.includes('embeddings')) continue;
      return `${field} is zero, which may mean unknown`;
    }
    const others = known.map((one) => one[name]).filter((one) => one > 0n);
    const [least, most] = [min(others), max(others)];
    if (least === undefined || most === undefined)
      return `no model of its provider has an ${field} to compare with`;
    if (price[name] * TIMES < least) return `${field} is below a tenth of the lowest of its provider`;
    if (price[name] > most * TIMES) return `${field} is above ten times the highest of its provider`;
  }
  for (const name of ['cacheRead', 'cacheWrite', 'cacheWrite1h'] as const) {
    if (price[name] * 100n < price.input) return `${PRICE_FIELDS[name]} is below a hundredth of input_price`;
    if (price[name] > price.input * TIMES) return `${PRICE_FIELDS[name]} is above ten times input_price`;
  }
  const byLength = heldBecause({ ...price, tiers: [] }, price);
  return byLength && `by the length of the input, ${byLength}`;
}

function min(amounts: readonly bigint[]): bigint | undefined {
  return amounts.reduce<bigint | undefined>(
    (least, one) => (least !== undefined && least < one ? least : one),
    undefined,
  );
}

function max(amounts: readonly bigint[]): bigint | undefined {
  return amounts.reduce<bigint | undefined>(
    (most, one) => (most !== undefined && most > one ? most : one),
    undefined,
  );
}
