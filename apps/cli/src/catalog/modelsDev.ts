import {
  assertPriced,
  count,
  type ImportedRates,
  type ImportResult,
  importEntries,
  money,
  UnsupportedModelError,
  withoutUndefined,
} from './importedModel.ts';

type Entry = Readonly<Record<string, unknown>>;

/** Their ids of providers that have another name here. */
const PROVIDERS: Readonly<Record<string, string>> = { google: 'gemini', togetherai: 'together' };

const MODALITIES: Readonly<Record<string, string>> = {
  image: 'image_input',
  pdf: 'pdf_input',
  audio: 'audio_input',
  video: 'video_input',
};

/** They have one tier, whose name contains the threshold. */
const TIER_ABOVE_TOKENS = 200_000;

/** Reads `https://models.dev/api.json`: providers by id, each with models by id, with prices in dollars per million tokens. */
export function readModelsDev(content: unknown): ImportResult {
  const providers = Object.entries(object(content) ?? {});
  const isTheirs =
    providers.length > 0 && providers.every(([, provider]) => object(object(provider)?.models));
  if (!isTheirs)
    throw new Error("This is not models.dev's list: it must be an object of providers, each with models.");
  const entries = providers.flatMap(([id, provider]) =>
    Object.entries(object(object(provider)?.models) ?? {}).map(
      ([name, model]) => [`${PROVIDERS[id] ?? id}/${name}`, object(model) ?? {}] as const,
    ),
  );
  return importEntries(entries, readEntry);
}

function readEntry(model: string, entry: Entry) {
  const [provider = ''] = model.split('/');
  if (!/^[a-z0-9-]+$/.test(provider) || provider === 'router') throw new UnsupportedModelError('no provider');
  const limit = object(entry.limit) ?? {};
  const cost = object(entry.cost);
  if (!cost) throw new UnsupportedModelError('no price');
  if (cost.reasoning !== undefined && cost.reasoning !== cost.output)
    throw new UnsupportedModelError('reasoning has a separate price');
  const context = count(limit.context);
  if (context === undefined) throw new UnsupportedModelError('no context window');
  const base = rates(cost);
  assertPriced(base.input_price, base.output_price);
  const whole = base as ImportedRates;
  const above = object(cost.context_over_200k);
  const { input } = object(entry.modalities) ?? {};
  return {
    model,
    context_window: context,
    max_output_tokens: count(limit.output) ?? null,
    capabilities: [
      ...(entry.tool_call === true ? ['tools'] : []),
      ...(entry.reasoning === true ? ['reasoning'] : []),
      ...(Array.isArray(input) ? input.flatMap((modality) => MODALITIES[String(modality)] ?? []) : []),
    ],
    price: {
      ...whole,
      // A token class that the tier omits has the same price as below the tier.
      tiers: above ? [{ above_input_tokens: TIER_ABOVE_TOKENS, ...whole, ...rates(above) }] : [],
    },
  };
}

function rates(cost: Entry): Partial<ImportedRates> {
  return withoutUndefined({
    input_price: money(cost.input, 0),
    output_price: money(cost.output, 0),
    cache_read_price: money(cost.cache_read, 0),
    cache_write_price: money(cost.cache_write, 0),
    input_audio_price: money(cost.input_audio, 0),
    output_audio_price: money(cost.output_audio, 0),
  }) as Partial<ImportedRates>;
}

function object(value: unknown): Entry | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Entry) : undefined;
}
