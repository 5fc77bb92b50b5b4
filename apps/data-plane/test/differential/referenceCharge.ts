import { hasMediaTokens, type TokenUsage, totalTokens } from '@weighbridge/domain';
import type { ResponseFormat } from '../../src/formats/responseFormat.ts';
import { factsOfDocument, factsOfStream } from './referenceResponse.ts';
import type { FuzzResponse } from './responses.ts';

/** The prices of the models of the proxy under test, in nano-USD per token. */
const PRICES: readonly (readonly [keyof TokenUsage, bigint])[] = [
  ['inputTokens', 1_000n],
  ['outputTokens', 2_000n],
  ['cacheReadTokens', 100n],
  ['cacheWriteTokens', 1_250n],
  ['cacheWrite1hTokens', 2_001n],
];

/**
 * What an answer costs, in nano-USD, by the usage that it reports; undefined if it reports none of its whole. Tools, tiers of service
 * and media have prices of their own, which only the two paths are compared by.
 */
export function expectedCharge(
  format: ResponseFormat,
  { status, bytes, isStream }: FuzzResponse,
): bigint | 'priced by terms' | undefined {
  const facts = isStream ? factsOfStream(format, bytes) : factsOfDocument(format, bytes);
  const { usage, said, toolUses, others } = facts;
  if (!usage || (totalTokens(usage) === 0 && !facts.failed)) return status >= 300 ? 0n : undefined;
  const hasTerms = Object.values(said).some((one) => one !== undefined) || Object.keys(toolUses).length > 0;
  if (hasTerms || others.length > 0 || hasMediaTokens(usage)) return 'priced by terms';
  return PRICES.reduce((sum, [name, price]) => sum + BigInt(usage[name]) * price, 0n);
}
