import { priceAt } from '@weighbridge/state';
import { hasMember } from '../formats/decodedMembers.ts';
import { parseSmall } from '../formats/fieldReader.ts';
import { isRecord } from '../formats/jsonFields.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import { unknownCosts } from '../formats/unknownCosts.ts';
import type { ModelRequest, PreparedRequest } from './preparedRequest.ts';

/**
 * Whether a response that was not read to its end may have cost more than can be seen of it: reasoning that is not shown,
 * media, whose tokens can't be counted from their bytes, or tools that the vendor runs. `isInputKnown`: the vendor has
 * reported the input.
 */
export function mayHideUsage(
  { modelRequest }: PreparedRequest,
  { toolUses }: ResponseFacts,
  isInputKnown: boolean,
): boolean {
  if (!modelRequest) return false;
  for (const _ in toolUses) return true;
  if (mayReason(modelRequest)) return true;
  const { input, tools, output } = unknownCosts(modelRequest.generation);
  return output || tools || (input && !isInputKnown);
}

/** Whether the input can't be counted from the bytes of the request: then it may fill the context window of its model. */
export function hasUnknownInput({ generation }: ModelRequest): boolean {
  const { input, tools } = unknownCosts(generation);
  return input || tools;
}

/**
 * Whether only the end of a stream tells what it cost: the vendor has not reported the input, which can't be counted here, or
 * runs tools, which add to it.
 */
export function endsWithItsCost({ modelRequest }: PreparedRequest, isInputKnown: boolean): boolean {
  if (!modelRequest) return false;
  const { input, tools } = unknownCosts(modelRequest.generation);
  return tools || (input && !isInputKnown);
}

/** The usual lives of what a vendor caches. */
const USUAL_LIVES: ReadonlySet<string | undefined> = new Set(['5m', '30m']);

/** The request asked the vendor to keep a part of the prompt in its cache for longer than usual, which costs more. */
export function wroteForLong({ generation }: ModelRequest): boolean {
  return generation.body.readJoined((body) => hasMember(body, ['ttl'], (value) => !USUAL_LIVES.has(value)));
}

/** The vendor may write the input to its cache at another price: it was asked to, or does so unasked. */
export function mayWriteToCache({ model, connector, generation }: ModelRequest): boolean {
  const { price } = priceAt(model, connector);
  if (CACHES_UNASKED.has(connector.provider) && price.cacheWrite > price.input) return true;
  return generation.body.readJoined((body) => hasMember(body, CACHE_MARKS));
}

const CACHES_UNASKED: ReadonlySet<string> = new Set(['openai', 'azure']);
const CACHE_MARKS = ['cache_control', 'cachePoint'];

/** Of a model without capabilities, no one has said that it does not. */
function mayReason({ model: { capabilities }, generation }: ModelRequest): boolean {
  const isKnownNotTo = capabilities.length > 0 && !capabilities.includes('reasoning');
  if (!generation.asksToReason && isKnownNotTo) return false;
  return !isSwitchedOff(generation);
}

/** A larger value is no setting. */
const MAX_SETTING_BYTES = 4_096;

/** The fields of a request that set how its model reasons; off by any of them. */
function isSwitchedOff({ body, spans }: ModelRequest['generation']): boolean {
  const settingOf = (field: string): unknown => {
    const span = spans.get(field);
    return body.readJoined((bytes) => parseSmall(bytes, span, MAX_SETTING_BYTES));
  };
  const reasoning = settingOf('reasoning');
  const thinking = settingOf('thinking');
  return (
    settingOf('reasoning_effort') === 'none' ||
    (isRecord(reasoning) && (reasoning.effort === 'none' || reasoning.enabled === false)) ||
    (isRecord(thinking) && thinking.type === 'disabled')
  );
}
