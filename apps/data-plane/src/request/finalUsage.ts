import type { MessageInitShape } from '@bufbuild/protobuf';
import { MAX_TOKENS, type SettleResponseRequestSchema } from '@weighbridge/contracts';
import { addTokens, serviceConditions, totalTokens } from '@weighbridge/domain';
import { billedTools } from '../attempt/billedTools.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';

/** What a response used in the end; without `usage`, its charge stays. */
export type FinalUsage = Pick<
  MessageInitShape<typeof SettleResponseRequestSchema>,
  'usage' | 'details' | 'status'
>;

/** The final usage of a response; undefined while the vendor works on it. */
export function finalUsage(facts: ResponseFacts): FinalUsage | undefined {
  const { status, pending, said, toolUses, others } = facts;
  if (pending || status === '') return undefined;
  const reported = others.reduce((sum, { tokens }) => sum && addTokens(sum, tokens), facts.usage);
  // No response is made of nothing, but one that did not complete may be free.
  const isUsable = reported && (totalTokens(reported) > 0 || status !== 'completed');
  if (!isUsable || totalTokens(reported) > MAX_TOKENS) return { status };
  return {
    status,
    usage: {
      input: reported.inputTokens,
      cacheRead: reported.cacheReadTokens,
      cacheWrite: reported.cacheWriteTokens,
      cacheWrite1h: reported.cacheWrite1hTokens,
      output: reported.outputTokens,
      inputAudio: reported.inputAudioTokens,
      inputImage: reported.inputImageTokens,
      cacheReadAudio: reported.cacheReadAudioTokens,
      outputAudio: reported.outputAudioTokens,
      outputImage: reported.outputImageTokens,
    },
    details: {
      ...serviceConditions(said.serviceTier, said.speed, said.geography),
      // The request is gone: a container may be of any size.
      toolUses: { ...billedTools(toolUses, () => undefined) },
    },
  };
}
