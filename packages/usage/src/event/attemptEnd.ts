import type { Outcome } from '@weighbridge/contracts';
import {
  type NanoUsd,
  NO_TOOL_USES,
  type ServiceConditions,
  STANDARD_SERVICE,
  type TokenUsage,
  type ToolUses,
} from '@weighbridge/domain';

/** The outcome of an attempt, and the vendor's HTTP status: 0 if no response came. */
export interface OutcomeAndStatus {
  readonly outcome: Outcome;
  readonly status: number;
}

/** What the cost of an attempt depends on besides its tokens. */
export interface PriceDetails {
  readonly service: ServiceConditions;
  readonly toolUses: ToolUses;
  /** What the price list has no price for: charged at the dearest known price. */
  readonly unpriced: readonly string[];
  /** The model that the response names, if the price is that model's; else empty. */
  readonly pricedModel: string;
}

/** Tokens of text at the list price, of the model that was asked. */
export const LIST_PRICE_DETAILS: PriceDetails = {
  service: STANDARD_SERVICE,
  toolUses: NO_TOOL_USES,
  unpriced: [],
  pricedModel: '',
};

/** How much an attempt counts in buckets of requests, and in those of tokens. */
export interface AttemptCounts {
  readonly requests: number;
  readonly tokens: number;
}

/** How an attempt ended, and what it is charged. Times are monotonic, in milliseconds. */
export interface AttemptEnd extends OutcomeAndStatus {
  readonly usage: TokenUsage;
  readonly details: PriceDetails;
  readonly costNanoUsd: NanoUsd;
  /** What it counts in buckets of requests and of tokens; undefined if it reserved from none. */
  readonly counts?: AttemptCounts | undefined;
  readonly estimated: boolean;
  readonly dispatchedAt: number;
  readonly firstByteAt: number | undefined;
  readonly responseId: string;
  /** What of the request the vendor did not get as it was sent. */
  readonly dropped: readonly string[];
  /** The models that its request passed over, since further limits had no headroom for them: `mock/large large models`. */
  readonly skipped: readonly string[];
}
