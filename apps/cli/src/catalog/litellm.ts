import {
  assertPriced,
  count,
  type ImportedRates,
  type ImportResult,
  importEntries,
  money,
  UnsupportedModelError,
} from './importedModel.ts';
import { readPrice } from './litellmPrice.ts';

/**
 * Reads LiteLLM's `model_prices_and_context_window.json`: an object of models by name, with prices in dollars per token
 * (https://docs.litellm.ai/docs/completion/token_usage).
 */
export function readLiteLlm(content: unknown): ImportResult {
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw new Error("This is not LiteLLM's list: it must be an object of models by name.");
  }
  const entries = Object.entries(content).filter(
    (entry): entry is [string, Entry] =>
      entry[0] !== 'sample_spec' && typeof entry[1] === 'object' && entry[1] !== null,
  );
  return importEntries(entries, readEntry);
}

type Entry = Readonly<Record<string, unknown>>;

/** LiteLLM's names of providers that have another name here. */
const PROVIDERS: Readonly<Record<string, string>> = {
  together_ai: 'together',
  cohere_chat: 'cohere',
  'vertex_ai-language-models': 'vertex-ai',
};

/** The modes that are priced by tokens. */
const MODES = ['chat', 'completion', 'responses', 'embedding'];

const CAPABILITIES: readonly (readonly [flag: string, capability: string])[] = [
  ['supports_function_calling', 'tools'],
  ['supports_vision', 'image_input'],
  ['supports_pdf_input', 'pdf_input'],
  ['supports_audio_input', 'audio_input'],
  ['supports_video_input', 'video_input'],
  ['supports_reasoning', 'reasoning'],
];

function readEntry(key: string, entry: Entry) {
  const theirProvider = String(entry.litellm_provider ?? '');
  const provider = PROVIDERS[theirProvider] ?? theirProvider.replaceAll('_', '-');
  if (!/^[a-z0-9-]+$/.test(provider) || provider === 'router') throw new UnsupportedModelError('no provider');
  if (!MODES.includes(String(entry.mode))) throw new UnsupportedModelError('not priced by tokens');
  if (Number(entry.input_cost_per_request ?? 0) > 0)
    throw new UnsupportedModelError('also priced per request');
  const { output_cost_per_token: perOutput, output_cost_per_reasoning_token: perReasoning } = entry;
  if (perReasoning !== undefined && perReasoning !== perOutput)
    throw new UnsupportedModelError('reasoning has a separate price');

  const name = key.startsWith(`${theirProvider}/`) ? key.slice(theirProvider.length + 1) : key;
  const context = count(entry.max_input_tokens) ?? count(entry.max_tokens);
  if (context === undefined) throw new UnsupportedModelError('no context window');
  const price = readPrice(entry);
  const embeds = entry.mode === 'embedding';
  const output = price.output_price ?? (embeds ? money(0, 0) : undefined);
  assertPriced(price.input_price, output);
  const { input_price } = price;
  return {
    model: `${provider}/${name}`,
    context_window: context,
    max_output_tokens: count(entry.max_output_tokens) ?? null,
    capabilities: [
      ...CAPABILITIES.filter(([flag]) => entry[flag] === true).map(([, capability]) => capability),
      ...(embeds ? ['embeddings'] : []),
    ],
    ...(/^\d{4}-\d{2}-\d{2}$/.test(String(entry.deprecation_date)) && {
      deprecated_at: `${String(entry.deprecation_date)}T00:00:00.000Z`,
    }),
    price: { ...price, input_price, output_price: output as ImportedRates['output_price'] },
  };
}
