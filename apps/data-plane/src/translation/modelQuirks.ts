import { DEFAULT_QUIRKS, type Quirks, type TargetFormat, withCapabilities } from '@weighbridge/dialects';
import type { RoutableModel } from '@weighbridge/state';
import { takesNewerLimit } from '../control/limitNames.ts';

const known = new WeakMap<RoutableModel, Map<TargetFormat, Quirks>>();

/** What a model takes in a format, as far as the catalog says; else what its vendor's models usually take. Kept by model object. */
export function quirksOf(model: RoutableModel, format: TargetFormat): Quirks {
  const byFormat = known.get(model) ?? new Map<TargetFormat, Quirks>();
  const found = byFormat.get(format);
  if (found) return found;
  const quirks = readQuirks(model, format);
  known.set(model, byFormat.set(format, quirks));
  return quirks;
}

/** OpenAI's models that reason take no stop sequences, unless the catalog says otherwise. */
function stopsOf({ maxStops }: Quirks, provider: string, format: TargetFormat): number {
  return format === 'chat' && LIKE_OPENAI.has(provider) ? 0 : maxStops;
}

/** Vendors that have all that OpenAI's chat completions have. */
const LIKE_OPENAI: ReadonlySet<string> = new Set(['azure', 'openai']);

/**
 * What a vendor's chat completions take: others than OpenAI's have no cache keys and safety identifiers, and some refuse what they do
 * not know. Mistral names the seed otherwise, and its ids of calls have nine characters (https://docs.mistral.ai/api/#tag/chat).
 */
function chatQuirks(provider: string): Quirks {
  const usual = DEFAULT_QUIRKS.chat;
  if (LIKE_OPENAI.has(provider)) return usual;
  const tokensMember = takesNewerLimit(provider) ? 'max_completion_tokens' : 'max_tokens';
  const other: Quirks = { ...usual, tokensMember, cacheKey: false, user: false };
  return provider === 'mistral' ? { ...other, seed: false, callIdLength: 9 } : other;
}

const MEDIA = [
  ['image', 'image_input'],
  ['document', 'pdf_input'],
  ['audio', 'audio_input'],
  ['video', 'video_input'],
] as const;

function readQuirks(
  { capabilities, maxOutputTokens, provider }: RoutableModel,
  format: TargetFormat,
): Quirks {
  const usual = format === 'chat' ? chatQuirks(provider) : DEFAULT_QUIRKS[format];
  const maxTokens = maxOutputTokens ?? usual.maxTokens;
  const defaultTokens =
    usual.defaultTokens === undefined ? undefined : Math.min(usual.defaultTokens, maxTokens ?? Infinity);
  const sized = { ...usual, maxTokens, defaultTokens };
  // Nothing may be known of an operator's own model.
  if (capabilities.length === 0) return sized;
  const inputs = MEDIA.flatMap(([media, name]) => {
    return capabilities.includes(name) && usual.inputs.includes(media) ? [media] : [];
  });
  const reasons = capabilities.includes('reasoning');
  // Only models that reason refuse sampling settings, unless the catalog says otherwise.
  const known: Quirks = reasons
    ? { ...sized, inputs, maxStops: stopsOf(sized, provider, format) }
    : { ...sized, inputs, efforts: [], budget: undefined, adaptive: false, sampling: true };
  return withCapabilities(known, capabilities, format);
}
