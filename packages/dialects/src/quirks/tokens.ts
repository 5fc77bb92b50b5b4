import type { ModelRequest } from '../ir/request.ts';
import type { WriteContext } from '../writeContext.ts';

/** The limit of output tokens that a target gets; undefined if it needs none and the request has none. */
export function planTokens(
  { maxTokens: asked, limitPath }: Pick<ModelRequest, 'maxTokens' | 'limitPath'>,
  { quirks, losses }: WriteContext,
): number | undefined {
  const { minTokens, maxTokens = Number.POSITIVE_INFINITY, defaultTokens } = quirks;
  if (!asked) {
    if (defaultTokens !== undefined && limitPath !== undefined)
      losses.add(limitPath, 'changed', `the vendor needs a limit: ${defaultTokens} tokens`);
    return defaultTokens;
  }
  const tokens = Math.min(Math.max(asked.value, minTokens), maxTokens);
  if (tokens !== asked.value) {
    const most = quirks.maxTokens === undefined ? '' : ` and at most ${maxTokens}`;
    losses.add(asked.path, 'changed', `the model takes at least ${minTokens}${most} tokens`);
  }
  return tokens;
}
