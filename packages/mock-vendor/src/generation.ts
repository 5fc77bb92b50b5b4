import type { Answer } from './answer.ts';
import type { OpenEntry } from './bill.ts';
import type { Exchange } from './exchange.ts';
import { pause } from './peer.ts';
import { tokensOfBytes } from './tokens.ts';

/** What a dialect needs of a conversation to charge for it. */
export interface Charged {
  readonly model: string;
  readonly stream: boolean;
  readonly choices: number;
}

/** Charges the input; the output is added as it is generated. */
export function openBill({ bill, requestId }: Exchange, request: Charged, answer: Answer): OpenEntry {
  return bill.open({
    requestId,
    model: request.model,
    inputTokens: answer.inputTokens,
    cachedInputTokens: answer.cachedTokens,
    cacheWriteTokens: answer.cacheWriteTokens,
    cacheWrite1hTokens: answer.cacheWrite1hTokens,
    outputTokens: 0,
    reasoningTokens: 0,
    streamed: request.stream,
  });
}

/** An answer that is sent whole was generated whole, however much of it arrives. */
export function chargeWhole(entry: OpenEntry, { choices }: Charged, answer: Answer): void {
  entry.reasoningTokens = choices * answer.reasoningTokens;
  entry.outputTokens = choices * (answer.reasoningTokens + answer.textTokens);
}

/** Charges the reasoning, which comes before the text. */
export function chargeReasoning(entry: OpenEntry, { choices }: Charged, answer: Answer): void {
  entry.reasoningTokens = choices * answer.reasoningTokens;
  entry.outputTokens = entry.reasoningTokens;
}

/**
 * Generates the text of a streamed answer piece by piece; every choice gets every piece. False when the answer is to
 * break off with an error event: that one is for the dialect to send.
 */
export async function generate(
  { reply, behaviour, gone }: Exchange,
  entry: OpenEntry,
  { choices }: Charged,
  answer: Answer,
  send: (piece: string, choice: number) => Promise<void>,
): Promise<boolean> {
  const middle = Math.floor(answer.pieces.length / 2);
  let bytes = 0;
  for (const [at, piece] of [...answer.pieces, undefined].entries()) {
    if (at === middle) {
      await reply.middle();
      if (behaviour.interruption === 'SSE error mid') return false;
    }
    if (piece === undefined) break;
    await pause(behaviour.chunkDelayMs, gone);
    const tokensBefore = tokensOfBytes(bytes);
    bytes += Buffer.byteLength(piece);
    for (let choice = 0; choice < choices; choice += 1) {
      // Billed before it is sent: the client never holds more than the bill says.
      entry.outputTokens += tokensOfBytes(bytes) - tokensBefore;
      await send(piece, choice);
    }
  }
  return true;
}
