import type { ModelOutput } from '../model/modelOutput.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import type { GeminiRequest } from './geminiRequest.ts';

interface ModalityCount {
  readonly modality: string;
  readonly tokenCount: number;
}

/** The prompt by modality. */
export function promptDetails({ inputTokens, media }: ModelOutput): ModalityCount[] {
  const { inputAudio: audio, inputImage: image, cachedAudio } = media;
  // The vendor includes what it read from its cache.
  return counts({
    TEXT: inputTokens - audio - image - cachedAudio,
    AUDIO: audio + cachedAudio,
    IMAGE: image,
  });
}

/** Google's usage, with this many tokens of text per candidate so far. */
export function usageMetadata(
  { choices }: GeminiRequest,
  output: ModelOutput,
  { usage }: Behaviour,
  textTokens: number,
): object | undefined {
  if (usage === 'none') return undefined;
  const { inputTokens, cachedTokens, reasoningTokens, media, serving } = output;
  if (usage === 'zero') return { promptTokenCount: 0, totalTokenCount: 0 };
  const { outputAudio, outputImage, cachedAudio } = media;
  const text = choices * textTokens;
  const candidates = text + outputAudio + outputImage;
  const thoughts = choices * reasoningTokens;
  return {
    promptTokenCount: inputTokens,
    ...(candidates > 0 && {
      candidatesTokenCount: candidates,
      candidatesTokensDetails: counts({ TEXT: text, AUDIO: outputAudio, IMAGE: outputImage }),
    }),
    totalTokenCount: inputTokens + candidates + thoughts,
    ...(cachedTokens > 0 && {
      cachedContentTokenCount: cachedTokens,
      cacheTokensDetails: counts({ TEXT: cachedTokens - cachedAudio, AUDIO: cachedAudio }),
    }),
    promptTokensDetails: promptDetails(output),
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
    ...(serving.serviceTier !== '' && { serviceTier: serving.serviceTier }),
  };
}

function counts(byModality: Readonly<Record<string, number>>): ModalityCount[] {
  return Object.entries(byModality).flatMap(([modality, tokenCount]) =>
    tokenCount > 0 ? [{ modality, tokenCount }] : [],
  );
}
