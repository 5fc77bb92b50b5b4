import type { Setting } from '../ir/request.ts';
import type { WriteContext } from '../writeContext.ts';

/** The limit of output tokens that a target gets; undefined if it needs none and the request has none. */
export function planTokens(
  asked: Setting<number> | undefined,
  { quirks, losses }: WriteContext,
): number | undefined {
  const { minTokens, maxTokens = Number.POSITIVE_INFINITY, defaultTokens } = quirks;
  if (!asked) return defaultTokens;
  const tokens = Math.min(Math.max(asked.value, minTokens), maxTokens);
  if (tokens !== asked.value) {
    const most = quirks.maxTokens === undefined ? '' : ` and at most ${maxTokens}`;
    losses.add(asked.path, 'changed', `the model takes at least ${minTokens}${most} tokens`);
  }
  return tokens;
}
