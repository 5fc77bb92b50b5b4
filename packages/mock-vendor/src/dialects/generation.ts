import { pause } from '../http/disconnect.ts';
import type { Exchange } from '../http/exchange.ts';
import type { ModelOutput } from '../model/modelOutput.ts';
import type { OpenEntry } from '../records/bill.ts';
import { tokensOfBytes } from '../shared/tokens.ts';

/** The fields of a request that its charge depends on. */
export interface Charged {
  readonly model: string;
  readonly stream: boolean;
  readonly choices: number;
}

/** Charges the input; the output is added as it is generated. */
export function openBill(
  { bill, requestId }: Exchange,
  request: Charged,
  modelOutput: ModelOutput,
): OpenEntry {
  return bill.open({
    requestId,
    model: request.model,
    inputTokens: modelOutput.inputTokens,
    cachedInputTokens: modelOutput.cachedTokens,
    cacheWriteTokens: modelOutput.cacheWriteTokens,
    cacheWrite1hTokens: modelOutput.cacheWrite1hTokens,
    outputTokens: 0,
    reasoningTokens: 0,
    streamed: request.stream,
  });
}

/** Charges the whole output: without streaming it is generated before it is sent. */
export function chargeWhole(entry: OpenEntry, { choices }: Charged, modelOutput: ModelOutput): void {
  entry.reasoningTokens = choices * modelOutput.reasoningTokens;
  entry.outputTokens = choices * (modelOutput.reasoningTokens + modelOutput.textTokens);
}

/** Charges the reasoning, which comes before the text. */
export function chargeReasoning(entry: OpenEntry, { choices }: Charged, modelOutput: ModelOutput): void {
  entry.reasoningTokens = choices * modelOutput.reasoningTokens;
  entry.outputTokens = entry.reasoningTokens;
}

/**
 * Generates the text of a stream piece by piece; every choice gets every piece. False if the dialect has to interrupt the
 * stream with an error event.
 */
export async function generate(
  { reply, behaviour, disconnected }: Exchange,
  entry: OpenEntry,
  { choices }: Charged,
  modelOutput: ModelOutput,
  send: (piece: string, choice: number) => Promise<void>,
): Promise<boolean> {
  const middle = Math.floor(modelOutput.pieces.length / 2);
  let bytes = 0;
  for (const [at, piece] of [...modelOutput.pieces, undefined].entries()) {
    if (at === middle) {
      await reply.middle();
      if (behaviour.interruption === 'SSE error mid') return false;
    }
    if (piece === undefined) break;
    await pause(behaviour.chunkDelayMs, disconnected);
    const tokensBefore = tokensOfBytes(bytes);
    bytes += Buffer.byteLength(piece);
    for (let choice = 0; choice < choices; choice += 1) {
      // Charged before sending, so that the client never has more than is on the bill.
      entry.outputTokens += tokensOfBytes(bytes) - tokensBefore;
      await send(piece, choice);
    }
  }
  return true;
}
