import {
  abilities,
  type Fields,
  fieldsOf,
  type ListEntry,
  type ListedModel,
  tokenCount,
} from './listedPrice.ts';
import { litellmConditions, litellmPrice } from './litellmPrice.ts';

/** Their names of providers that have another name here. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ['cohere_chat', 'cohere'],
  ['text-completion-openai', 'openai'],
  ['together_ai', 'together'],
  ['vertex_ai-language-models', 'vertex-ai'],
]);
/** What has a price per token on a route that is served. */
const MODES: ReadonlySet<unknown> = new Set(['chat', 'responses', 'completion', 'embedding']);
/** Keys that are no models. */
const OTHER_KEYS: ReadonlySet<string> = new Set(['sample_spec', 'fallback_generalizations']);

/** `model_prices_and_context_window.json`: models by name, with prices in dollars per token. */
export function isLiteLlm(content: unknown): content is Fields {
  const models = Object.entries(fieldsOf(content) ?? {}).filter(([name]) => !OTHER_KEYS.has(name));
  return (
    models.length > 0 &&
    models.every(([, model]) => fieldsOf(model)) &&
    models.some(([, model]) => typeof fieldsOf(model)?.litellm_provider === 'string')
  );
}

/** `leaveOut` is told of each model that is no entry. */
export function* litellmEntries(
  content: Fields,
  leaveOut: (reason: string, key: string) => void = () => {},
): Iterable<ListEntry> {
  for (const [key, value] of Object.entries(content)) {
    if (OTHER_KEYS.has(key)) continue;
    const model = fieldsOf(value) ?? {};
    const theirs = model.litellm_provider;
    if (typeof theirs !== 'string') leaveOut('no provider', key);
    else if (!MODES.has(model.mode)) leaveOut('not priced by tokens', key);
    else {
      const provider = PROVIDERS.get(theirs) ?? theirs.replaceAll('_', '-');
      const prefix = [theirs, provider].map((name) => `${name}/`).find((name) => key.startsWith(name)) ?? '';
      yield {
        key,
        id: `${provider}/${key.slice(prefix.length)}`,
        read: () => litellmPrice(model),
        readConditions: () => litellmConditions(model),
        describe: () => describe(model),
      };
    }
  }
}

const CAPABILITIES: readonly (readonly [flag: string, capability: string])[] = [
  ['supports_function_calling', 'tools'],
  ['supports_vision', 'image_input'],
  ['supports_pdf_input', 'pdf_input'],
  ['supports_audio_input', 'audio_input'],
  ['supports_video_input', 'video_input'],
  ['supports_reasoning', 'reasoning'],
];

function describe(model: Fields): ListedModel | undefined {
  const contextWindow = tokenCount(model.max_input_tokens) ?? tokenCount(model.max_tokens);
  if (contextWindow === undefined) return undefined;
  const named = CAPABILITIES.map(([flag, capability]) => (model[flag] === true ? capability : undefined));
  const { deprecation_date: ends, output_cost_per_token: output } = model;
  const { output_cost_per_reasoning_token: reasoning } = model;
  const isReasoningApart = reasoning !== undefined && reasoning !== output;
  return {
    contextWindow,
    maxOutputTokens: tokenCount(model.max_output_tokens) ?? null,
    capabilities: abilities(named, model.mode === 'embedding'),
    otherNames: [],
    endsOn: typeof ends === 'string' && /^\d{4}-\d{2}-\d{2}$/.test(ends) ? ends : undefined,
    isForNewRequests: true,
    alsoPriced: [
      ...(Number(model.input_cost_per_request ?? 0) > 0 ? (['request'] as const) : []),
      ...(isReasoningApart ? (['reasoning'] as const) : []),
    ],
  };
}
