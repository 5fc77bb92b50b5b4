/** Tokens of one model. */
export interface BillLine {
  readonly model: string;
  /** All input tokens, including cache reads and writes, audio and images. */
  readonly inputTokens: number;
  /** Including cached audio. */
  readonly cachedInputTokens: number;
  readonly cachedAudioTokens: number;
  /** Input tokens that were written to the cache, for five minutes and for an hour. */
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly inputAudioTokens: number;
  readonly inputImageTokens: number;
  /** All output tokens generated so far, over all choices, including reasoning, audio and images. */
  readonly outputTokens: number;
  readonly outputAudioTokens: number;
  readonly outputImageTokens: number;
}

/** A line without tokens. */
export function emptyLine(model: string): BillLine {
  return {
    model,
    inputTokens: 0,
    cachedInputTokens: 0,
    cachedAudioTokens: 0,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    inputAudioTokens: 0,
    inputImageTokens: 0,
    outputTokens: 0,
    outputAudioTokens: 0,
    outputImageTokens: 0,
  };
}
