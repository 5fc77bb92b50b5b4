import {
  abilities,
  amount,
  checkedTiers,
  dearerOf,
  type Fields,
  fieldsOf,
  type ListEntry,
  type ListedModel,
  type ListedPrice,
  type ListedRates,
  type ListedTier,
  stated,
  tokenCount,
} from './listedPrice.ts';

/** Their ids of providers that have another name here. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ['google', 'gemini'],
  ['togetherai', 'together'],
]);
const LEGACY_TIER_ABOVE = 200_000;

/** `https://models.dev/api.json`: providers by id, each with models by id, with prices in dollars per million tokens. */
export function isModelsDev(content: unknown): content is Fields {
  const providers = Object.values(fieldsOf(content) ?? {});
  return providers.length > 0 && providers.every((provider) => fieldsOf(fieldsOf(provider)?.models));
}

export function* modelsDevEntries(content: Fields): Iterable<ListEntry> {
  for (const [provider, value] of Object.entries(content)) {
    for (const [name, model] of Object.entries(fieldsOf(fieldsOf(value)?.models) ?? {})) {
      const id = `${PROVIDERS.get(provider) ?? provider}/${name}`;
      yield {
        key: id,
        id,
        read: () => priceOf(fieldsOf(fieldsOf(model)?.cost)),
        describe: () => describe(name, fieldsOf(model) ?? {}),
      };
    }
  }
}

const MODALITIES: ReadonlyMap<unknown, string> = new Map([
  ['image', 'image_input'],
  ['pdf', 'pdf_input'],
  ['audio', 'audio_input'],
  ['video', 'video_input'],
]);

function describe(name: string, model: Fields): ListedModel | undefined {
  const limit = fieldsOf(model.limit);
  const { input, output } = fieldsOf(model.modalities) ?? {};
  const contextWindow = tokenCount(limit?.context);
  const writesText = !Array.isArray(output) || output.includes('text');
  if (contextWindow === undefined) return undefined;
  const cost = fieldsOf(model.cost);
  const named = [
    model.tool_call === true ? 'tools' : undefined,
    model.reasoning === true ? 'reasoning' : undefined,
    ...(Array.isArray(input) ? input.map((modality) => MODALITIES.get(modality)) : []),
    ...requestCapabilities(model),
  ];
  return {
    contextWindow,
    maxOutputTokens: tokenCount(limit?.output) ?? null,
    capabilities: abilities(named, /embed/.test(name)),
    otherNames: [],
    endsOn: undefined,
    isForNewRequests: writesText && model.status !== 'deprecated',
    alsoPriced: cost?.reasoning !== undefined && cost.reasoning !== cost.output ? ['reasoning'] : [],
  };
}

/** What requests the model takes, where the list says so. The data plane reads these names. */
function requestCapabilities(model: Fields): (string | undefined)[] {
  const stated = (name: string, value: unknown) =>
    typeof value === 'boolean' ? (value ? name : `no_${name}`) : undefined;
  return [
    ...(model.reasoning === true
      ? reasoningCapabilities(model.reasoning_options, fieldsOf(model.limit)?.output)
      : []),
    stated('sampling', model.temperature),
    stated('structured_output', model.structured_output),
  ];
}

const EFFORTS: ReadonlySet<unknown> = new Set(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

/** A budget without a maximum is limited by the output. */
function reasoningCapabilities(options: unknown, outputTokens: unknown): string[] {
  if (!Array.isArray(options) || options.length === 0) return [];
  const named: string[] = [];
  let canBeOff = false;
  for (const option of options) {
    const { type, values, min, max } = fieldsOf(option) ?? {};
    if (type === 'toggle') canBeOff = true;
    if (type === 'effort' && Array.isArray(values)) {
      for (const value of values) if (EFFORTS.has(value)) named.push(`effort_${value}`);
      canBeOff ||= values.includes('none');
    }
    if (type === 'budget_tokens') {
      canBeOff ||= min === 0;
      const [least, most] = [min === 0 ? 0 : tokenCount(min), tokenCount(max ?? outputTokens)];
      if (least !== undefined && most !== undefined && least <= most)
        named.push(`reasoning_budget_${least}_${most}`);
    }
  }
  return canBeOff ? [...named, 'reasoning_off'] : named;
}

function priceOf(cost: Fields | undefined): ListedPrice | undefined {
  if (!cost || cost.input === undefined || cost.output === undefined) return undefined;
  const listed = Array.isArray(cost.tiers) ? cost.tiers.flatMap(tierOf) : [];
  const legacy = fieldsOf(cost.context_over_200k);
  const tiers =
    listed.length === 0 && legacy
      ? [{ aboveInputTokens: LEGACY_TIER_ABOVE, rates: ratesOf(legacy) }]
      : listed;
  return { rates: ratesOf(cost), tiers: checkedTiers(tiers) };
}

function tierOf(value: unknown): ListedTier[] {
  const tier = fieldsOf(value);
  const condition = fieldsOf(tier?.tier);
  if (!tier || condition?.type !== 'context') return [];
  return [{ aboveInputTokens: Number(condition.size), rates: ratesOf(tier) }];
}

function ratesOf(cost: Fields): ListedRates {
  return stated({
    input: amount(cost.input, 0),
    output: dearerOf(amount(cost.output, 0), amount(cost.reasoning, 0)),
    cacheRead: amount(cost.cache_read, 0),
    cacheWrite: amount(cost.cache_write, 0),
    inputAudio: amount(cost.input_audio, 0),
    outputAudio: amount(cost.output_audio, 0),
  });
}
