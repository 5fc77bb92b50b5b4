import { Outcome } from '@weighbridge/contracts';
import {
  type Estimate,
  estimateTokens,
  type NanoUsd,
  NO_TOKENS,
  NO_TOOL_USES,
  type ServiceConditions,
  STANDARD_SERVICE,
  type TokenUsage,
  type ToolUses,
} from '@weighbridge/domain';
import type { RequestBody } from '../formats/requestBody.ts';
import { textOfRequest } from '../formats/requestText.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { CountTokens } from '../formats/tokenCounter.ts';
import type { PreparedRequest } from './plan.ts';

/** How a response ended, and what was read from it. */
export interface ResponseResult {
  readonly outcome: Outcome;
  readonly facts: ResponseFacts;
  /** Monotonic, in milliseconds; undefined if no byte came. */
  readonly firstByteAt: number | undefined;
  /** What the model wrote, as far as it was read, and by how much the whole is longer: to count tokens from. */
  readonly output: () => { readonly text: string; readonly ratio: number };
}

export interface ChargedAttempt extends ResponseResult {
  /** The HTTP status of the vendor; 0 if no response came. */
  readonly status: number;
  /** No byte of the request went out. */
  readonly neverSent: boolean;
}

export interface Charge {
  readonly usage: TokenUsage;
  readonly service: ServiceConditions;
  readonly toolUses: ToolUses;
  readonly estimated: boolean;
  /** Set if the cost is not that of the usage: the attempt is charged its reservation. */
  readonly costNanoUsd?: NanoUsd;
}

const AT_LIST_PRICE = { service: STANDARD_SERVICE, toolUses: NO_TOOL_USES };

/** A larger body is estimated by its size: parsing it would take longer than the precision is worth. */
const MAX_COUNTED_BYTES = 1024 * 1024;

/**
 * What a vendor charges for an attempt. In this order: the usage that the vendor reported, zeros included; nothing for an
 * error status or a request that was never sent; the reservation if the attempt broke off before the response began,
 * since it may have cost as much as any other; otherwise tokens that are counted here.
 */
export function chargeFor(
  attempt: ChargedAttempt,
  prepared: PreparedRequest,
  reservation: Estimate,
  countTokens: CountTokens,
): Charge | Promise<Charge> {
  const { facts, status, outcome, neverSent, firstByteAt } = attempt;
  const { service, toolUses } = facts;
  if (facts.usage) return { usage: facts.usage, service, toolUses, estimated: false };
  if (status >= 300 || neverSent) return { ...AT_LIST_PRICE, usage: NO_TOKENS, estimated: false };
  if (firstByteAt === undefined && outcome !== Outcome.SUCCESS) return chargeReservation(reservation);
  return countCharge(attempt, prepared, countTokens);
}

async function countCharge(
  { facts, output }: ResponseResult,
  { body, modelRequest }: PreparedRequest,
  countTokens: CountTokens,
): Promise<Charge> {
  const { service, toolUses } = facts;
  // A stream that broke off may have reported its input at the start.
  const input = facts.partialUsage ?? { ...NO_TOKENS, inputTokens: await countRequest(body, countTokens) };
  const pending = facts.pending ? modelRequest?.generation.backgroundOutputTokens : undefined;
  if (pending !== undefined)
    return { usage: { ...input, outputTokens: pending }, service, toolUses, estimated: true };
  const { text, ratio } = output();
  const outputTokens = Math.max(input.outputTokens, Math.ceil((await countTokens(text)) * ratio));
  return { usage: { ...input, outputTokens }, service, toolUses, estimated: true };
}

/** The charge of an attempt whose real cost stays unknown. */
export function chargeReservation({ inputTokens, outputTokens, costNanoUsd }: Estimate): Required<Charge> {
  return {
    ...AT_LIST_PRICE,
    usage: { ...NO_TOKENS, inputTokens, outputTokens },
    estimated: true,
    costNanoUsd,
  };
}

async function countRequest(body: RequestBody | undefined, countTokens: CountTokens): Promise<number> {
  if (!body) return 0;
  if (body.length > MAX_COUNTED_BYTES) return estimateTokens(body.length);
  const { text, framingTokens } = textOfRequest(body.toBuffer());
  return (await countTokens(text)) + framingTokens;
}
