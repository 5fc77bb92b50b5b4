import { type ModelPrice, multiplePermille, type TokenPrices, withTiers } from './modelPrice.ts';
import { dearer, type NanoUsd, nanoFromDecimalUsd as usd } from './money.ts';
import { DEAREST_USD, MEDIA_CLASSES, type MediaClass } from './tokenClasses.ts';
import { toolOfSized } from './toolSizes.ts';

/** The dearest prices that are known of any model, by class: what usage without its own price is charged. */
export interface DearestPrices {
  /** How many times the list price, in thousandths. */
  readonly serviceTierPermille: bigint;
  readonly speedPermille: bigint;
  readonly geographyPermille: bigint;
  /** Per one million tokens. */
  readonly media: Readonly<Record<MediaClass, NanoUsd>>;
  /** Per use, by the tool's name. */
  readonly tools: ReadonlyMap<string, NanoUsd>;
  /** Per use of a tool that no model has a price for. */
  readonly anyTool: NanoUsd;
}

/**
 * The dearest prices that vendors publish, as of 2026-11: the floor for a catalog that lacks them. Service tier: OpenAI's
 * priority processing (2.5 times); speed: Anthropic's fast mode (6 times); geography: Anthropic's US inference (1.1 times);
 * tools: xAI's and OpenAI's dearest search (35 USD per thousand), and OpenAI's containers by their memory.
 */
const PUBLISHED: DearestPrices = {
  serviceTierPermille: 2_500n,
  speedPermille: 6_000n,
  geographyPermille: 1_100n,
  media: Object.fromEntries(MEDIA_CLASSES.map((media) => [media, usd(DEAREST_USD[media])])) as Record<
    MediaClass,
    NanoUsd
  >,
  tools: new Map([
    ['code_interpreter_4g', usd('0.12')],
    ['code_interpreter_16g', usd('0.48')],
    ['code_interpreter_64g', usd('1.92')],
    ['shell_4g', usd('0.12')],
    ['shell_16g', usd('0.48')],
    ['shell_64g', usd('1.92')],
  ]),
  anyTool: usd('0.035'),
};

/** The dearest of the given prices and of those that vendors publish. */
export function dearestPrices(prices: Iterable<ModelPrice>): DearestPrices {
  let { serviceTierPermille, speedPermille, geographyPermille, anyTool } = PUBLISHED;
  const media = { ...PUBLISHED.media };
  const tools = new Map(PUBLISHED.tools);
  for (const price of prices) {
    for (const rates of allRates(price)) raiseMedia(media, rates);
    for (const [tool, perUse] of Object.entries(price.toolPrices)) {
      tools.set(tool, dearer(tools.get(tool) ?? 0n, perUse));
      // The size of a container is no tool of its own.
      if (toolOfSized(tool) === undefined) anyTool = dearer(anyTool, perUse);
    }
    for (const { service, ...variant } of price.variants) {
      const { serviceTier, speed, geography } = service;
      const permille = multiplePermille(variant, price);
      // A price for several conditions says nothing about each.
      if (speed === '' && geography === '') serviceTierPermille = dearer(serviceTierPermille, permille);
      if (serviceTier === '' && geography === '') speedPermille = dearer(speedPermille, permille);
      if (serviceTier === '' && speed === '') geographyPermille = dearer(geographyPermille, permille);
    }
  }
  return { serviceTierPermille, speedPermille, geographyPermille, media, tools, anyTool };
}

/**
 * The dearest prices after some of `all` were added and others removed: `previous` itself if nothing changes. Reads all prices only if
 * one of the dearest was removed and not added again, or a dearer one was added.
 */
export function dearestAfter(
  previous: DearestPrices,
  {
    removed,
    added,
    all,
  }: {
    readonly removed: Iterable<ModelPrice>;
    readonly added: Iterable<ModelPrice>;
    readonly all: () => Iterable<ModelPrice>;
  },
): DearestPrices {
  const before = amountsOf(previous);
  const news = amountsOf(dearestPrices(added));
  const isLost = [...amountsOf(dearestPrices(removed))].some(
    ([name, amount]) =>
      amount === before.get(name) &&
      // What vendors publish stays.
      amount !== PUBLISHED_AMOUNTS.get(name) &&
      amount > (news.get(name) ?? -1n),
  );
  const isRaised = [...news].some(([name, amount]) => amount > (before.get(name) ?? -1n));
  if (!isLost && !isRaised) return previous;
  const now = dearestPrices(all());
  // Another one may be as dear.
  const amounts = amountsOf(now);
  const isSame =
    amounts.size === before.size && [...amounts].every(([name, amount]) => amount === before.get(name));
  return isSame ? previous : now;
}

type Amounts = ReadonlyMap<string, bigint>;

function amountsOf({ media, tools, ...others }: DearestPrices): Amounts {
  const all = [...Object.entries(others), ...Object.entries(media)];
  return new Map([...all, ...[...tools].map(([tool, amount]) => [`tool ${tool}`, amount] as const)]);
}

const PUBLISHED_AMOUNTS = amountsOf(PUBLISHED);

function allRates(price: ModelPrice): TokenPrices[] {
  return [price, ...price.variants].flatMap(withTiers);
}

function raiseMedia(media: Record<MediaClass, NanoUsd>, rates: TokenPrices): void {
  for (const mediaClass of MEDIA_CLASSES)
    media[mediaClass] = dearer(media[mediaClass], rates[mediaClass] ?? 0n);
}
