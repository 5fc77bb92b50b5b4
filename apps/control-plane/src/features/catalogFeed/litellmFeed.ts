import type { MediaClass, NanoUsd, TextClass } from '@weighbridge/domain';
import {
  abilities,
  amount,
  dearerOf,
  type FeedEntry,
  type FeedModel,
  type FeedPrice,
  type FeedRates,
  type Fields,
  feedTiers,
  fieldsOf,
  tokenCount,
} from './feedPrices.ts';

/** Their names of providers that have another name here. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ['cohere_chat', 'cohere'],
  ['text-completion-openai', 'openai'],
  ['together_ai', 'together'],
]);
/** What has a price per token on a route that is served. */
const MODES: ReadonlySet<unknown> = new Set(['chat', 'responses', 'completion', 'embedding']);
/** Keys that are no models. */
const OTHER_KEYS: ReadonlySet<string> = new Set(['sample_spec', 'fallback_generalizations']);

const CLASSES: Readonly<Record<string, TextClass | MediaClass>> = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  // Reasoning is output: the dearer of the two holds.
  output_cost_per_reasoning_token: 'output',
  cache_read_input_token_cost: 'cacheRead',
  cache_creation_input_token_cost: 'cacheWrite',
  cache_creation_input_token_cost_above_1hr: 'cacheWrite1h',
  input_cost_per_audio_token: 'inputAudio',
  output_cost_per_audio_token: 'outputAudio',
  cache_read_input_audio_token_cost: 'cacheReadAudio',
  input_cost_per_image_token: 'inputImage',
  output_cost_per_image_token: 'outputImage',
};
const LENGTH = /^(.+)_above_(\d{1,6})k_tokens$/;

/** `model_prices_and_context_window.json`: models by name, with prices in dollars per token. */
export function isLiteLlm(content: unknown): content is Fields {
  const models = Object.entries(fieldsOf(content) ?? {}).filter(([name]) => !OTHER_KEYS.has(name));
  return (
    models.length > 0 &&
    models.every(([, model]) => fieldsOf(model)) &&
    models.some(([, model]) => typeof fieldsOf(model)?.litellm_provider === 'string')
  );
}

export function* litellmEntries(content: Fields, now: Date): Iterable<FeedEntry> {
  for (const [key, value] of Object.entries(content)) {
    const model = fieldsOf(value) ?? {};
    const theirs = model.litellm_provider;
    if (OTHER_KEYS.has(key) || typeof theirs !== 'string' || !MODES.has(model.mode)) continue;
    const provider = PROVIDERS.get(theirs) ?? theirs.replaceAll('_', '-');
    const prefix = [theirs, provider].map((name) => `${name}/`).find((name) => key.startsWith(name)) ?? '';
    yield {
      id: `${provider}/${key.slice(prefix.length)}`,
      read: () => priceOf(model),
      describe: () => describe(model, now),
    };
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

function describe(model: Fields, now: Date): FeedModel | undefined {
  const contextWindow = tokenCount(model.max_input_tokens) ?? tokenCount(model.max_tokens);
  const ends = model.deprecation_date;
  const hasEnded = typeof ends === 'string' && ends <= now.toISOString().slice(0, 10);
  // The catalog has no price per request.
  if (contextWindow === undefined || hasEnded || Number(model.input_cost_per_request ?? 0) > 0)
    return undefined;
  const named = CAPABILITIES.map(([flag, capability]) => (model[flag] === true ? capability : undefined));
  return {
    contextWindow,
    maxOutputTokens: tokenCount(model.max_output_tokens) ?? null,
    capabilities: abilities(named, model.mode === 'embedding'),
    otherNames: [],
  };
}

function priceOf(model: Fields): FeedPrice | undefined {
  if (model.input_cost_per_token === undefined || model.input_cost_per_token === null) return undefined;
  const rates: Rates = {};
  const byLength = new Map<number, Rates>();
  for (const [key, value] of Object.entries(model)) {
    const [, base = key, thousands] = LENGTH.exec(key) ?? [];
    const name = Object.hasOwn(CLASSES, base) ? CLASSES[base] : undefined;
    if (!name) continue;
    const above = thousands === undefined ? undefined : Number(thousands) * 1_000;
    let into = rates;
    if (above !== undefined) {
      into = byLength.get(above) ?? {};
      byLength.set(above, into);
    }
    const price = dearerOf(into[name], amount(value, 6));
    if (price !== undefined) into[name] = price;
  }
  // A vendor bills no output of embeddings.
  if (model.mode === 'embedding') rates.output ??= 0n;
  const tiers = [...byLength].map(([aboveInputTokens, ofTier]) => ({ aboveInputTokens, rates: ofTier }));
  return { rates: rates as FeedRates, tiers: feedTiers(tiers) };
}

type Rates = Partial<Record<TextClass | MediaClass, NanoUsd>>;
