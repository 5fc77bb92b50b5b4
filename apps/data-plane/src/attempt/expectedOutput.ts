import type { OutputSize } from '@weighbridge/domain';
import type { Call } from '../formats/call.ts';

/** How long a call's answer is taken to get: by what it says itself, else by what its model usually writes. */
export function expectedOutput(
  { output }: Pick<Call, 'output'>,
  usualTokens: number | undefined,
): OutputSize | undefined {
  if (!output) return undefined;
  const { maxTokens, choices } = output;
  return { maxTokens, choices, usualTokens: output.usualTokens ?? usualTokens };
}
