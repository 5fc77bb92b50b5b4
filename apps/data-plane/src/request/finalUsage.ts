import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SettleResponseRequestSchema } from '@weighbridge/contracts';
import { countsOf, serviceConditions, type TokenUsage, totalTokens } from '@weighbridge/domain';
import type { RoutingTable } from '@weighbridge/state';
import { MAX_TOKENS } from '@weighbridge/usage';
import { otherModelId } from '../attempt/answeredModel.ts';
import { billedTools } from '../attempt/billedTools.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { ServerTools } from '../formats/serverTools.ts';

/** What a response used in the end; without `usage`, its charge stays, and its tools are added. */
export type FinalUsage = Pick<
  MessageInitShape<typeof SettleResponseRequestSchema>,
  'usage' | 'details' | 'status' | 'others'
>;

/** What the price of a response depends on, and only its request says. */
export interface RequestTerms {
  readonly tools: ServerTools;
  /** Cache writes are for longer than usual. */
  readonly writesForLong: boolean;
}

/** The id of the model by whose price another model's usage is charged; empty if no one knows. */
export type ModelIdOf = (name: string, tokens: TokenUsage) => string;

/** The final usage of a response; undefined while the vendor works on it. Without `terms`, the dearest that they may be count. */
export function finalUsage(
  facts: ResponseFacts,
  terms: RequestTerms | undefined,
  modelIdOf: ModelIdOf,
): FinalUsage | undefined {
  const { status, pending, said, toolUses, others } = facts;
  if (pending || status === '') return undefined;
  const details = {
    ...serviceConditions(said.serviceTier, said.speed, said.geography),
    toolUses: { ...billedTools(toolUses, () => terms?.tools) },
  };
  const usage = facts.usage && withLives(facts, facts.usage, terms);
  const all = others.reduce((sum, { tokens }) => sum + totalTokens(tokens), usage ? totalTokens(usage) : 0);
  // No response is made of nothing, but one that did not complete may be free.
  if (!usage || !(all > 0 || status !== 'completed') || all > MAX_TOKENS) return { status, details };
  return {
    status,
    usage: countsOf(usage),
    details,
    others: others.map(({ model, tokens }) => ({
      model: model === '' ? '' : modelIdOf(model, tokens),
      usage: countsOf(tokens),
    })),
  };
}

function withLives(
  { hasCacheLives }: ResponseFacts,
  usage: TokenUsage,
  terms: RequestTerms | undefined,
): TokenUsage {
  const { cacheWriteTokens, cacheWrite1hTokens } = usage;
  if (hasCacheLives || cacheWriteTokens === 0 || terms?.writesForLong === false) return usage;
  return { ...usage, cacheWriteTokens: 0, cacheWrite1hTokens: cacheWrite1hTokens + cacheWriteTokens };
}

/** By the id of the connector that has the response. */
export function modelIdsAt(table: () => RoutingTable | undefined): (connectorId: string) => ModelIdOf {
  return (connectorId) => {
    const known = table();
    const connector = [...(known?.connectors.values() ?? [])].flat().find(({ id }) => id === connectorId);
    return (name, tokens) => (connector ? otherModelId(name, tokens, connector, known) : '');
  };
}
