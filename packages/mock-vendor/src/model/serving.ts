import type { Behaviour } from '../shared/behaviour.ts';
import { type BillLine, emptyLine } from '../shared/billLine.ts';
import type { VendorTraits } from '../shared/traits.ts';
import type { Conversation, Fallback } from './conversation.ts';
import { type Greed, greedOf } from './greed.ts';

/** How often a greedy vendor uses a tool that nothing limits. */
const GREEDY_TOOL_USES = 3;

/** Who serves a request, under which conditions, and what else that costs. */
export interface Serving {
  readonly model: string;
  readonly maxOutputTokens: number | undefined;
  readonly serviceTier: string;
  readonly speed: string;
  readonly geography: string;
  /** The index of the model among the request's others; undefined if its own model answers. */
  readonly fallback: Fallback | undefined;
  readonly toolUses: Readonly<Record<string, number>>;
  /** The same by what they are billed as. */
  readonly billedUses: Readonly<Record<string, number>>;
  /** By kind: `compaction`, `advisor_message`, `image_gen`. */
  readonly extra: Readonly<Record<string, BillLine>>;
}

export function serve(conversation: Conversation, behaviour: Behaviour, traits: VendorTraits): Serving {
  const { asked } = conversation;
  const { serving: script } = behaviour;
  const fallback = fallbackOf(conversation, script.fallback, traits);
  return {
    model: fallback?.model ?? conversation.model,
    maxOutputTokens: fallback?.maxOutputTokens ?? conversation.maxOutputTokens,
    serviceTier: script.serviceTier ?? asked.serviceTier,
    speed: script.speed ?? fallback?.speed ?? asked.speed,
    geography: script.geography ?? asked.geography,
    fallback,
    ...toolUses(conversation, script.toolUses, traits),
    extra: extraLines(conversation, behaviour, greedOf(conversation, traits)),
  };
}

function fallbackOf(
  { model, maxOutputTokens, asked }: Conversation,
  scripted: number,
  { greedy, prices }: VendorTraits,
): Fallback | undefined {
  if (scripted > 0) return asked.fallbacks[scripted - 1];
  if (!greedy) return undefined;
  const costOf = (name: string, tokens: number | undefined) =>
    (prices[name]?.output ?? 0n) * BigInt(tokens ?? maxOutputTokens ?? 1);
  const known = asked.fallbacks.filter((one) => prices[one.model] !== undefined);
  return known.reduce<Fallback | undefined>((most, one) => {
    const than = most ? costOf(most.model, most.maxOutputTokens) : costOf(model, maxOutputTokens);
    return costOf(one.model, one.maxOutputTokens) > than ? one : most;
  }, undefined);
}

/** A vendor never uses a tool that the request does not have, nor more often than it allows. */
function toolUses(
  { asked }: Conversation,
  scripted: Readonly<Record<string, number>>,
  { greedy }: VendorTraits,
): Pick<Serving, 'toolUses' | 'billedUses'> {
  const uses: Record<string, number> = {};
  const billed: Record<string, number> = {};
  let left = asked.maxToolCalls ?? Number.POSITIVE_INFINITY;
  for (const tool of asked.serverTools) {
    const { name, maxUses = Number.POSITIVE_INFINITY, billedAs = name, isBilledOnce } = tool;
    const wanted = scripted[name] ?? (greedy ? GREEDY_TOOL_USES : 0);
    const used = Math.min(wanted, maxUses, left);
    if (used <= 0) continue;
    uses[name] = (uses[name] ?? 0) + used;
    if (billedAs !== null) billed[billedAs] = isBilledOnce ? 1 : (billed[billedAs] ?? 0) + used;
    left -= used;
  }
  return { toolUses: uses, billedUses: billed };
}

function extraLines(
  { model, asked }: Conversation,
  { serving: script }: Behaviour,
  greed: Greed,
): Record<string, BillLine> {
  const compactionTokens = script.compactionTokens || greed.compactionTokens;
  const advisorTokens = script.advisorTokens || greed.advisorTokens;
  const imageToolTokens = script.imageToolTokens || greed.imageToolTokens;
  const extra: Record<string, BillLine> = {};
  if (compactionTokens > 0) {
    extra.compaction = { ...emptyLine(model), inputTokens: compactionTokens, outputTokens: compactionTokens };
  }
  const modelOf = (tool: string) => asked.serverTools.find(({ name }) => name === tool)?.model;
  const advisor = modelOf('advisor');
  if (advisor !== undefined && advisorTokens > 0) {
    extra.advisor_message = {
      ...emptyLine(advisor),
      inputTokens: advisorTokens,
      outputTokens: advisorTokens,
    };
  }
  const painter = modelOf('image_generation');
  if (painter !== undefined && imageToolTokens > 0) {
    extra.image_gen = {
      ...emptyLine(painter),
      inputTokens: imageToolTokens,
      outputTokens: imageToolTokens,
      outputImageTokens: imageToolTokens,
    };
  }
  return extra;
}
