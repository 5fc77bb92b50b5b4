import type { OutputLimitName } from './behaviour.ts';
import type { VendorPrice } from './vendorPrice.ts';

/**
 * Where a stream of chat completions reports its usage: in a chunk of its own if the request asks for it (OpenAI), or unasked
 * in the last chunk (Mistral, DeepSeek, Together) or in `x_groq` of the last chunk (Groq).
 */
type StreamUsage = 'if_asked' | 'last_chunk' | 'x_groq';

/** What distinguishes one vendor from another, for all its requests. */
export interface VendorTraits {
  /** Refuses unknown fields, tools and content, as the vendors do. */
  readonly strict: boolean;
  /** Signs what it thinks, and refuses conversations that it can't have had: see `history/`. */
  readonly checksHistory: boolean;
  /** Reads `"MODEL"` as `"model"`, as programs in Go do; of several spellings the last counts. */
  readonly readsAnyCase: boolean;
  /** The output limit of chat completions that it honours; it ignores the other. Undefined: either, but not both. */
  readonly honours: OutputLimitName | undefined;
  readonly streamUsage: StreamUsage;
  /** Refuses `stream_options` with a 422, as Mistral and Cohere do. */
  readonly refusesStreamOptions: boolean;
  /**
   * Does all that a request allows and nothing limits: output up to its limit, every server-side tool, the most expensive
   * of the named models.
   */
  readonly greedy: boolean;
  readonly prices: Readonly<Record<string, VendorPrice>>;
}

export const LENIENT: VendorTraits = {
  strict: false,
  checksHistory: false,
  readsAnyCase: false,
  honours: undefined,
  streamUsage: 'if_asked',
  refusesStreamOptions: false,
  greedy: false,
  prices: {},
};
