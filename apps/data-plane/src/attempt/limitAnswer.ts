import { affordableOutput, hardEstimate } from '@weighbridge/domain';
import type { LeaseBook } from '../budget/leaseBook.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt, type RoutableConnector } from '../control/routingTable.ts';
import type { Target } from '../control/target.ts';
import type { Call } from '../formats/call.ts';
import { addedInputTokens } from '../formats/hardLimits.ts';

/** What a model writes at most of which nobody says more. */
const UNKNOWN_MODEL_OUTPUT = 32_768;
/** Where the room of a budget sets the limit: less would be no answer. */
const LEAST_OUTPUT = 16;
/** A shorter answer is likely to be cut off: room for it is waited for, where others hold it. */
const USEFUL_OUTPUT = 1_024;

/**
 * Under a hard budget an answer has to have a limit: where the caller sets none, it is the model's own, or what the room
 * of the budget affords. What the vendor adds around an answer is known to the byte otherwise: what is not foreseeable was
 * refused before.
 */
export async function limitAnswer(
  budget: Pick<LeaseBook, 'headroom'>,
  key: ResolvedKey,
  call: Call,
  { model, connector }: Target,
): Promise<Call> {
  const foreseen = { ...call, addedInputTokens: addedInputTokens(call.body.whole()) };
  const { output } = call;
  if (!output || output.maxTokens !== undefined) return foreseen;
  const most = model.maxOutputTokens ?? UNKNOWN_MODEL_OUTPUT;
  const size = {
    inputBytes: call.body.length + LIMIT_BYTES,
    addedInputTokens: foreseen.addedInputTokens,
    output,
  };
  const { price } = priceAt(model, connector);
  const costOf = (tokens: number) => {
    return hardEstimate({ ...size, output: { ...output, maxTokens: tokens } }, price).costNanoUsd;
  };
  const room = await budget.headroom(key.budgets, {
    useful: costOf(Math.min(most, USEFUL_OUTPUT)),
    least: costOf(Math.min(most, LEAST_OUTPUT)),
  });
  const affordable = room === undefined ? most : affordableOutput(size, price, room);
  // With less left it is refused when it reserves, with the figures that say why.
  const tokens = Math.min(most, Math.max(affordable, LEAST_OUTPUT));
  const field = limitField(call, connector);
  return { ...foreseen, output: { ...output, maxTokens: tokens }, limit: { field, tokens } };
}

/** What setting the limit, the model's name and the wish for usage may add to a body. */
const LIMIT_BYTES = 512;

/** Of the fields that the operation knows, the one that the upstream takes: OpenAI's own models refuse the older name. */
function limitField({ operation }: Call, { provider }: RoutableConnector): string {
  const [first = 'max_tokens', newer] = operation.outputLimits ?? [];
  return newer !== undefined && NEWER_NAME.has(provider) ? newer : first;
}

const NEWER_NAME = new Set(['openai', 'azure']);
