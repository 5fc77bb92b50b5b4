import type { OutputLimitName } from './behaviour.ts';
import type { VendorPrice } from './vendorPrice.ts';

/** What distinguishes one vendor from another, for all its requests. */
export interface VendorTraits {
  /** Refuses unknown fields, tools and content, as the vendors do. */
  readonly strict: boolean;
  /** Reads `"MODEL"` as `"model"`, as programs in Go do; of several spellings the last counts. */
  readonly readsAnyCase: boolean;
  /** The output limit of chat completions that it honours; it ignores the other. Undefined: either, but not both. */
  readonly honours: OutputLimitName | undefined;
  /**
   * Does all that a request allows and nothing limits: output up to its limit, every server-side tool, the most expensive
   * of the named models.
   */
  readonly greedy: boolean;
  readonly prices: Readonly<Record<string, VendorPrice>>;
}

export const LENIENT: VendorTraits = {
  strict: false,
  readsAnyCase: false,
  honours: undefined,
  greedy: false,
  prices: {},
};
