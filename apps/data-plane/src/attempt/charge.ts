import { Outcome } from '@weighbridge/contracts';
import {
  type Estimate,
  estimateTokens,
  type NanoUsd,
  NO_TOKENS,
  NO_TOOL_USES,
  type OtherUsage,
  type TokenUsage,
  type ToolUses,
  totalTokens,
} from '@weighbridge/domain';
import type { RequestBody } from '../formats/requestBody.ts';
import { textOfRequest } from '../formats/requestText.ts';
import { noFacts, type ResponseFacts, type SaidConditions } from '../formats/responseFormat.ts';
import type { CountTokens } from '../formats/tokenCounter.ts';
import { stopsBillingOnDisconnect } from './disconnects.ts';
import { hasUnknownInput, mayHideUsage, mayWriteToCache, wroteForLong } from './hiddenUsage.ts';
import type { ModelRequest, PreparedRequest } from './preparedRequest.ts';
import { largestInput, modelOutputLimit } from './reservationEstimate.ts';

/** How a response ended, and what was read from it. */
export interface ResponseResult {
  readonly outcome: Outcome;
  readonly facts: ResponseFacts;
  /** Monotonic, in milliseconds; undefined if no byte came. */
  readonly firstByteAt: number | undefined;
  /** What the model wrote, as far as it was read, and by how much the whole is longer: to count tokens from. */
  readonly output: () => Output;
  /** It is one document, no stream: how much of it was read says nothing of what it cost. */
  readonly isDocument?: boolean;
}

export interface Output {
  readonly text: string;
  readonly ratio: number;
  /** The size of what was not read; it may hold more than text. */
  readonly unreadBytes?: number;
}

export interface ChargedAttempt extends ResponseResult {
  /** The HTTP status of the vendor; 0 if no response came. */
  readonly status: number;
  /** No byte of the request went out. */
  readonly neverSent: boolean;
  /** Monotonic, in milliseconds. */
  readonly sentAt: number;
}

export interface Charge {
  /** Of the model that answered. */
  readonly usage: TokenUsage;
  readonly said: SaidConditions;
  readonly toolUses: ToolUses;
  /** Billed beside `usage`, each at the price of its model. */
  readonly others: readonly OtherUsage[];
  /** The vendor's name of the model that answered; empty if it is not known. */
  readonly model: string;
  readonly estimated: boolean;
  /** The attempt is charged its reservation if that is more: what it used was not seen whole. */
  readonly atLeastReserved: boolean;
}

/** What is charged if the real cost stays unknown. */
export interface ReservationCharge {
  readonly usage: TokenUsage;
  readonly estimated: true;
  readonly costNanoUsd: NanoUsd;
}

const NOTHING_SAID = noFacts();
const NOTHING: Charge = {
  usage: NO_TOKENS,
  said: NOTHING_SAID.said,
  toolUses: NO_TOOL_USES,
  others: NOTHING_SAID.others,
  model: '',
  estimated: false,
  atLeastReserved: false,
};

/** Nothing came of the attempt: its vendor answered with an error, or got nothing. */
export function isNothing(charge: Charge | ReservationCharge): boolean {
  return charge === NOTHING;
}

/** A larger body is estimated by its size: parsing it would take longer than the precision is worth. */
const MAX_COUNTED_BYTES = 1024 * 1024;

/**
 * What a vendor charges for an attempt. The first of these that applies:
 *
 * 1. The usage that the vendor reported of the whole response.
 * 2. Nothing, for an error status or a request that was never sent.
 * 3. The reservation, if the vendor still works on the response, or the attempt broke off before the response began: it may have
 *    cost as much as any other. If its client made it break off, what is counted here, if that is more.
 * 4. Tokens that are counted here, and the model's context window for input that can't be counted; at least the reservation, if the
 *    response was whole, if costs may be hidden, or under a hard budget.
 */
export function chargeFor(
  attempt: ChargedAttempt,
  prepared: PreparedRequest,
  reservation: Estimate,
  countTokens: CountTokens,
): Charge | ReservationCharge | Promise<Charge | ReservationCharge> {
  const { facts, status, outcome, neverSent, firstByteAt } = attempt;
  const usage = wholeUsage(attempt);
  if (usage) return reported(facts, oneHourUsage(facts, usage, prepared));
  if (status >= 300 || neverSent) return NOTHING;
  if (prepared.modelRequest?.generation.isBackground) return chargeReservation(reservation);
  if (firstByteAt === undefined && outcome !== Outcome.SUCCESS) {
    return outcome === Outcome.CLIENT_GONE
      ? leftBeforeAnswer(attempt, prepared, reservation, countTokens)
      : chargeReservation(reservation);
  }
  return countCharge(attempt, prepared, countTokens);
}

/** The usage of the whole response; undefined if the vendor did not report it, or reported what can't be. */
function wholeUsage({ facts, outcome }: ChargedAttempt): TokenUsage | undefined {
  const { usage, isFinal, failed } = facts;
  if (!usage || !(isFinal || outcome === Outcome.SUCCESS)) return undefined;
  // No response is made of nothing, but one that failed may be free.
  return totalTokens(usage) > 0 || failed ? usage : undefined;
}

function reported({ said, toolUses, others, model }: ResponseFacts, usage: TokenUsage): Charge {
  return { usage, said, toolUses, others, model, estimated: false, atLeastReserved: false };
}

/** Cache writes that are not reported by their time to live. */
function oneHourUsage(
  { hasCacheLives }: ResponseFacts,
  usage: TokenUsage,
  { modelRequest }: PreparedRequest,
): TokenUsage {
  const { cacheWriteTokens } = usage;
  if (cacheWriteTokens === 0 || hasCacheLives || !modelRequest || !wroteForLong(modelRequest)) return usage;
  return { ...usage, cacheWriteTokens: 0, cacheWrite1hTokens: usage.cacheWrite1hTokens + cacheWriteTokens };
}

/** A stream that is not over may have reported its input at its start, or what it used so far. */
export function isInputKnown(facts: ResponseFacts): boolean {
  return partialUsage(facts) !== undefined;
}

function partialUsage({ usage, partialUsage: begun }: ResponseFacts): TokenUsage | undefined {
  return [usage, begun].find((one) => one && totalTokens(one) > 0);
}

async function countCharge(
  result: ResponseResult,
  prepared: PreparedRequest,
  countTokens: CountTokens,
): Promise<Charge> {
  const { facts, output, outcome, isDocument } = result;
  const { said, toolUses, others, model } = facts;
  const partial = partialUsage(facts);
  const input = partial ?? usageOfInput(await inputOf(prepared, countTokens), prepared);
  const { text, ratio, unreadBytes = 0 } = output();
  const most = mostOutput(prepared);
  const unread = Math.min(estimateTokens(unreadBytes), most);
  const counted = Math.ceil((await countTokens(text)) * ratio) + unread;
  // The text of a document that broke off can't be told from its frame, which costs nothing.
  const written = isDocument && outcome !== Outcome.SUCCESS ? Math.min(counted, most) : counted;
  const outputTokens = Math.max(input.outputTokens, written);
  return {
    usage: { ...input, outputTokens },
    said,
    toolUses,
    others,
    model,
    estimated: true,
    atLeastReserved: mayCostMore(result, prepared, partial !== undefined),
  };
}

/**
 * If a client leaves before the response begins, we see none of it. It must not pay less than the vendor bills, so the input is
 * counted here, if that is more than what was reserved for it, and the output is estimated by the time.
 */
async function leftBeforeAnswer(
  { sentAt }: ChargedAttempt,
  prepared: PreparedRequest,
  reservation: Estimate,
  countTokens: CountTokens,
): Promise<Charge | ReservationCharge> {
  const { modelRequest } = prepared;
  // Under a hard budget, that is the most that it can cost, but for what its policy allows.
  if (!modelRequest || (modelRequest.generation.hard && !hasUnknownInput(modelRequest)))
    return chargeReservation(reservation);
  const { said, toolUses, others } = NOTHING_SAID;
  // Of a stream of plain text, nothing was written before its first event; a document is written unseen.
  const isUnseen = !modelRequest.generation.stream || mayHideUsage(prepared, NOTHING_SAID, true);
  const written = isUnseen ? mostSince(sentAt, prepared) : 0;
  const outputTokens = Math.max(reservation.outputTokens, written);
  const inputTokens = Math.max(reservation.inputTokens, await inputOf(prepared, countTokens));
  return {
    usage: { ...usageOfInput(inputTokens, prepared), outputTokens },
    said,
    toolUses,
    others,
    model: '',
    estimated: true,
    atLeastReserved: true,
  };
}

/** What the vendor's cache is to keep is written there first. */
function usageOfInput(inputTokens: number, prepared: PreparedRequest): TokenUsage {
  const { modelRequest } = prepared;
  if (!modelRequest || !mayWriteToCache(modelRequest)) return { ...NO_TOKENS, inputTokens };
  return oneHourUsage(NOTHING_SAID, { ...NO_TOKENS, cacheWriteTokens: inputTokens }, prepared);
}

/** Models that reason are rarely faster. */
const MOST_TOKENS_PER_SECOND = 200;

/** What may have been written since then, of each choice. */
function mostSince(sentAt: number, prepared: PreparedRequest): number {
  const choices = prepared.modelRequest?.generation.output?.choices ?? 1;
  const seconds = (performance.now() - sentAt) / 1_000;
  return Math.min(Math.ceil(seconds * MOST_TOKENS_PER_SECOND) * choices, mostOutput(prepared));
}

/** Whether a response without final usage may have cost more than we counted. */
function mayCostMore(
  { facts, outcome, isDocument }: ResponseResult,
  prepared: PreparedRequest,
  isInputKnown: boolean,
): boolean {
  if (outcome === Outcome.SUCCESS || facts.unreadable || prepared.modelRequest?.generation.hard) return true;
  if (isDocument && (outcome === Outcome.CLIENT_GONE || outcome === Outcome.INTERRUPTED)) return true;
  if (outcome === Outcome.CLIENT_GONE && !stopsBillingOnDisconnect(prepared.connector)) return true;
  return mayHideUsage(prepared, facts, isInputKnown);
}

/** The most output tokens that the response may have; what was not read may be media, which has fewer than text. */
export function mostOutput({ modelRequest }: PreparedRequest): number {
  const output = modelRequest?.generation.output;
  if (!output) return 0;
  const { maxTokens = modelOutputLimit(modelRequest.model), choices } = output;
  return maxTokens * choices;
}

/** The charge of an attempt whose real cost stays unknown. */
export function chargeReservation({ inputTokens, outputTokens, costNanoUsd }: Estimate): ReservationCharge {
  return { usage: { ...NO_TOKENS, inputTokens, outputTokens }, estimated: true, costNanoUsd };
}

/** The input as it is counted here; the context window of the model for what can't be counted from the bytes of the request. */
async function inputOf(prepared: PreparedRequest, countTokens: CountTokens): Promise<number> {
  const counted = await countRequest(prepared, countTokens);
  const { modelRequest } = prepared;
  if (!modelRequest || !hasUnknownInput(modelRequest)) return counted;
  return Math.max(counted, largestInput(modelRequest));
}

const COMMA = 0x2c;

async function countRequest(
  { body, modelRequest }: PreparedRequest,
  countTokens: CountTokens,
): Promise<number> {
  if (!body) return 0;
  if (body.length > MAX_COUNTED_BYTES) return estimateLarge(body, modelRequest);
  const { text, characters, framingTokens } = textOfRequest(body.toBuffer());
  return (await countTokens(text, characters)) + framingTokens;
}

/** The input of embeddings may be numbers of tokens, as short as a digit and a comma. */
function estimateLarge(body: RequestBody, modelRequest: ModelRequest | undefined): number {
  const tokens = estimateTokens(body.length);
  if (modelRequest?.generation.output) return tokens;
  let commas = 0;
  for (const piece of body.pieces) for (const byte of piece) if (byte === COMMA) commas++;
  return Math.max(tokens, commas + 1);
}
