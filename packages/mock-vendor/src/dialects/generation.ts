import { pause } from '../http/disconnect.ts';
import type { Exchange } from '../http/exchange.ts';
import type { ModelOutput } from '../model/modelOutput.ts';
import type { OpenEntry } from '../records/bill.ts';
import { emptyLine } from '../shared/billLine.ts';
import { tokensOfBytes } from '../shared/tokens.ts';

/** The fields of a request that its charge depends on. */
export interface Charged {
  readonly stream: boolean;
  readonly choices: number;
}

/**
 * Charges the input, tools and further models; the output is added as it is generated. A vendor that bills after a
 * disconnect generates the rest nevertheless.
 */
export function openBill(
  { bill, requestId, account, behaviour, disconnected }: Exchange,
  request: Charged,
  modelOutput: ModelOutput,
): OpenEntry {
  const { media, serving } = modelOutput;
  const entry = bill.open({
    ...emptyLine(serving.model),
    requestId,
    account,
    inputTokens: modelOutput.inputTokens,
    cachedInputTokens: modelOutput.cachedTokens,
    cachedAudioTokens: media.cachedAudio,
    cacheWriteTokens: modelOutput.cacheWriteTokens,
    cacheWrite1hTokens: modelOutput.cacheWrite1hTokens,
    inputAudioTokens: media.inputAudio,
    inputImageTokens: media.inputImage,
    reasoningTokens: 0,
    serviceTier: serving.serviceTier,
    speed: serving.speed,
    geography: serving.geography,
    toolUses: serving.billedUses,
    extraLines: Object.values(serving.extra),
    streamed: request.stream,
  });
  const leave = () => {
    if (!entry.completed) entry.leftAt = new Date();
    if (behaviour.billsAfterDisconnect) chargeWhole(entry, request, modelOutput);
  };
  disconnected.addEventListener('abort', leave, { once: true });
  return entry;
}

/** Charges the whole output: without streaming it is generated before it is sent. */
export function chargeWhole(entry: OpenEntry, { choices }: Charged, modelOutput: ModelOutput): void {
  chargeMedia(entry, modelOutput);
  entry.reasoningTokens = choices * modelOutput.reasoningTokens;
  entry.outputTokens =
    entry.reasoningTokens +
    choices * modelOutput.textTokens +
    entry.outputAudioTokens +
    entry.outputImageTokens;
}

/** Charges the reasoning, which comes before the text, and media. */
function chargeReasoning(entry: OpenEntry, { choices }: Charged, modelOutput: ModelOutput): void {
  chargeMedia(entry, modelOutput);
  entry.reasoningTokens = choices * modelOutput.reasoningTokens;
  entry.outputTokens = entry.reasoningTokens + entry.outputAudioTokens + entry.outputImageTokens;
}

function chargeMedia(entry: OpenEntry, { media }: ModelOutput): void {
  entry.outputAudioTokens = media.outputAudio;
  entry.outputImageTokens = media.outputImage;
}

/** The time until the vendor can begin its reply. What it generates then is on the bill already. */
export function generationTime({ behaviour, disconnected }: Exchange): Promise<void> {
  return pause(behaviour.generateMs, disconnected);
}

/** The same before a stream: what the model thinks then is charged as it thinks, up to a disconnect. */
export async function thinkingTime(
  exchange: Exchange,
  entry: OpenEntry,
  request: Charged,
  modelOutput: ModelOutput,
): Promise<void> {
  const { behaviour } = exchange;
  const beganAtMs = performance.now();
  try {
    await generationTime(exchange);
    chargeReasoning(entry, request, modelOutput);
  } catch (error) {
    // Of a vendor that goes on, all is charged.
    if (!behaviour.billsAfterDisconnect) {
      const share = Math.min(1, (performance.now() - beganAtMs) / behaviour.generateMs);
      entry.reasoningTokens = Math.floor(share * request.choices * modelOutput.reasoningTokens);
      entry.outputTokens = entry.reasoningTokens;
    }
    throw error;
  }
}

/** All output tokens of a response, over all choices. */
export function totalOutput(
  { choices }: Charged,
  { reasoningTokens, textTokens, media }: ModelOutput,
): number {
  return choices * (reasoningTokens + textTokens) + media.outputAudio + media.outputImage;
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
  send: (piece: string, choice: number, at: number) => Promise<void>,
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
      await send(piece, choice, at);
    }
  }
  return true;
}
