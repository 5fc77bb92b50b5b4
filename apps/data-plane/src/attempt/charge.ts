import { Outcome } from '@weighbridge/contracts';
import { type Estimate, estimateTokens, type NanoUsd, NO_TOKENS, type TokenUsage } from '@weighbridge/domain';
import type { Body } from '../formats/body.ts';
import type { CountTokens } from '../formats/countTokens.ts';
import { textOfRequest } from '../formats/requestText.ts';
import type { Outgoing } from '../observe/attempt.ts';
import type { EndedTry } from './endedTry.ts';

export interface Charge {
  readonly usage: TokenUsage;
  readonly estimated: boolean;
  /** Where it is not what the usage costs: of an attempt of which nothing is known but what was reserved for it. */
  readonly costNanoUsd?: NanoUsd;
}

/** A larger body is not worth parsing to be counted: what it is made of matters less than its size. */
const MAX_COUNTED_BYTES = 1024 * 1024;

/**
 * What a vendor charges for an attempt: its own count where it told one, zeros included; nothing for an error, or where
 * nothing was sent. An attempt that broke off before anything of the answer came may have cost as much as any other: it is
 * charged what was reserved for it. For the rest it is counted here.
 */
export function chargeFor(
  ended: EndedTry,
  outgoing: Pick<Outgoing, 'body' | 'work'>,
  reserve: Estimate,
  countTokens: CountTokens,
): Charge | Promise<Charge> {
  const { facts, status, outcome, neverSent, firstByteAt } = ended;
  if (facts.usage) return { usage: facts.usage, estimated: false };
  if (status >= 300 || neverSent) return { usage: NO_TOKENS, estimated: false };
  if (firstByteAt === undefined && outcome !== Outcome.SUCCESS) return atReserve(reserve);
  return countedCharge(ended, outgoing, countTokens);
}

async function countedCharge(
  { facts, output }: EndedTry,
  { body, work }: Pick<Outgoing, 'body' | 'work'>,
  countTokens: CountTokens,
): Promise<Charge> {
  // The input of a stream that broke off is known where the vendor told it at the start.
  const input = facts.partialUsage ?? { ...NO_TOKENS, inputTokens: await countRequest(body, countTokens) };
  const pending = facts.pending ? work?.call.backgroundOutputTokens : undefined;
  if (pending !== undefined) return { usage: { ...input, outputTokens: pending }, estimated: true };
  const { text, ratio } = output();
  const outputTokens = Math.max(input.outputTokens, Math.ceil((await countTokens(text)) * ratio));
  return { usage: { ...input, outputTokens }, estimated: true };
}

/** The charge of an attempt of which nobody learnt what it came to. */
export function atReserve({ inputTokens, outputTokens, costNanoUsd }: Estimate): Required<Charge> {
  return { usage: { ...NO_TOKENS, inputTokens, outputTokens }, estimated: true, costNanoUsd };
}

async function countRequest(body: Body | undefined, countTokens: CountTokens): Promise<number> {
  if (!body) return 0;
  if (body.length > MAX_COUNTED_BYTES) return estimateTokens(body.length);
  const { text, overhead } = textOfRequest(body.whole());
  return (await countTokens(text)) + overhead;
}
