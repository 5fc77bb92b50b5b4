import type { TokenUsageFields, UsageEventFields } from '@weighbridge/contracts';
import { atMost } from './validation.ts';

/** What the cost of a row depends on besides its tokens, and what its vendor did not get. Empty texts stand for what the list price covers. */
export interface BillingDetails {
  /** Parts of `input_tokens`, `cache_read_tokens` and `output_tokens`. */
  readonly inputAudioTokens: number;
  readonly inputImageTokens: number;
  readonly cacheReadAudioTokens: number;
  readonly outputAudioTokens: number;
  readonly outputImageTokens: number;
  readonly serviceTier: string;
  readonly speed: string;
  readonly geography: string;
  /** By the tool's name. */
  readonly toolUses: Readonly<Record<string, number>>;
  /** What the price list had no price for. */
  readonly unpriced: readonly string[];
  /** The model whose price applied, if it is not the attempt's. */
  readonly pricedModel: string;
  /** What of the request the vendor did not get as it was sent. */
  readonly dropped: readonly string[];
}

/** The column: only what is not as for text at the list price. */
type DetailsColumn = Partial<{
  readonly input_audio_tokens: number;
  readonly input_image_tokens: number;
  readonly cache_read_audio_tokens: number;
  readonly output_audio_tokens: number;
  readonly output_image_tokens: number;
  readonly service_tier: string;
  readonly speed: string;
  readonly geography: string;
  readonly tool_uses: Readonly<Record<string, number>>;
  readonly unpriced: readonly string[];
  readonly priced_model: string;
  readonly dropped: readonly string[];
}>;

/** More than proxies write: they cut to 8 or 9 entries, and to 48 characters (512 for a model, 96 for a dropped field). */
const MAX_ENTRIES = 64;
const MAX_TEXT = 1_024;

/** The details of an event as JSON; null if it has none, as most. Throws if they are larger than any that a proxy writes. */
export function detailsColumn(usage: TokenUsageFields, details: UsageEventFields['details']): string | null {
  const { inputAudio, inputImage, cacheReadAudio, outputAudio, outputImage } = usage;
  if (!details && inputAudio + inputImage + cacheReadAudio + outputAudio + outputImage === 0) return null;
  const tokens = {
    input_audio_tokens: inputAudio,
    input_image_tokens: inputImage,
    cache_read_audio_tokens: cacheReadAudio,
    output_audio_tokens: outputAudio,
    output_image_tokens: outputImage,
  };
  const column = { ...tokens, ...(details && texts(details)) };
  const set = Object.entries(column).filter(([, value]) => value !== 0 && value !== '' && !isEmpty(value));
  return set.length === 0 ? null : JSON.stringify(Object.fromEntries(set));
}

function texts(details: NonNullable<UsageEventFields['details']>): DetailsColumn {
  const toolUses = Object.entries(details.toolUses);
  atMost(MAX_ENTRIES, 'the number of tools', toolUses.length);
  atMost(MAX_ENTRIES, 'the number of unpriced items', details.unpriced.length);
  atMost(MAX_ENTRIES, 'the number of dropped fields', details.dropped.length);
  return {
    service_tier: storable('service_tier', details.serviceTier),
    speed: storable('speed', details.speed),
    geography: storable('geography', details.geography),
    tool_uses: Object.fromEntries(toolUses.map(([tool, uses]) => [storable('a tool', tool), uses])),
    unpriced: details.unpriced.map((item) => storable('an unpriced item', item)),
    priced_model: storable('priced_model', details.pricedModel),
    dropped: details.dropped.map((field) => storable('a dropped field', field)),
  };
}

/** A vendor or a caller chose the text: what Postgres can't store must not keep the event out of the ledger. */
function storable(name: string, text: string): string {
  atMost(MAX_TEXT, `the length of ${name}`, text.length);
  return text.replaceAll('\0', '?');
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

/** The details of a row. */
export function detailsOf({ details }: { readonly details: unknown }): BillingDetails {
  const column = (details ?? {}) as DetailsColumn;
  return {
    inputAudioTokens: column.input_audio_tokens ?? 0,
    inputImageTokens: column.input_image_tokens ?? 0,
    cacheReadAudioTokens: column.cache_read_audio_tokens ?? 0,
    outputAudioTokens: column.output_audio_tokens ?? 0,
    outputImageTokens: column.output_image_tokens ?? 0,
    serviceTier: column.service_tier ?? '',
    speed: column.speed ?? '',
    geography: column.geography ?? '',
    toolUses: column.tool_uses ?? {},
    unpriced: column.unpriced ?? [],
    pricedModel: column.priced_model ?? '',
    dropped: column.dropped ?? [],
  };
}
