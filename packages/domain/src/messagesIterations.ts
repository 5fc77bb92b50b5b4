import { addTokens, NO_TOKENS, type TokenUsage, totalTokens, usageFromMessages } from './tokenUsage.ts';

/** Tokens that a vendor bills beside the usage of the model that answered. */
export interface OtherUsage {
  /** The vendor's name of the model that used them; empty for the model that answered. */
  readonly model: string;
  readonly tokens: TokenUsage;
}

export interface IterationsUsage {
  /** The fallback model that answered; empty if the model answered that was asked. */
  readonly fallbackModel: string;
  /** The usage of the model that answered. */
  readonly own: TokenUsage;
  readonly others: readonly OtherUsage[];
}

/** More would not fit into the usage that is read. */
const MAX_ITERATIONS = 1_024;

/**
 * Parses `usage.iterations` of messages, by `BetaIterationsUsage` of `@anthropic-ai/sdk` 1.11: `message` entries are turns of
 * a model, a `fallback_message` is the last turn of the fallback model that answered, and `compaction` and `advisor_message`
 * entries are not in the top-level usage, which is `top`.
 */
export function usageOfIterations(iterations: unknown, top: TokenUsage): IterationsUsage | undefined {
  if (!Array.isArray(iterations) || iterations.length === 0) return undefined;
  const entries = iterations.slice(0, MAX_ITERATIONS).flatMap(entryOf);
  const fallbackModel = entries.findLast(({ type }) => type === 'fallback_message')?.model ?? '';
  const turns = entries.filter(isTurn);
  const isOwn = ({ model }: Entry) => fallbackModel === '' || model === '' || model === fallbackModel;
  const own = sum(turns.filter(isOwn));
  // A model that declined before it wrote anything is not billed.
  const declined = turns.filter((entry) => !isOwn(entry) && entry.tokens.outputTokens > 0);
  const includesDeclined =
    declined.length > 0 && totalTokens(top) >= totalTokens(own) + totalTokens(sum(declined));
  const usesOwn = includesDeclined || totalTokens(own) > totalTokens(top);
  return {
    fallbackModel,
    own: usesOwn ? own : top,
    others: [...entries.filter((entry) => !isTurn(entry)), ...declined],
  };
}

interface Entry extends OtherUsage {
  readonly type: string;
}

function isTurn({ type }: Entry): boolean {
  return type === 'message' || type === 'fallback_message';
}

function entryOf(value: unknown): Entry[] {
  if (typeof value !== 'object' || value === null) return [];
  const { type, model } = value as Record<string, unknown>;
  const tokens = usageFromMessages(value);
  if (!tokens) return [];
  return [{ type: String(type), model: typeof model === 'string' ? model : '', tokens }];
}

function sum(entries: readonly OtherUsage[]): TokenUsage {
  return entries.reduce((total, { tokens }) => addTokens(total, tokens), NO_TOKENS);
}
