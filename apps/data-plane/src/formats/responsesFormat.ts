import { totalTokens, usageFromResponses } from '@weighbridge/domain';
import { isRecord, type JsonRecord, joinTexts, recordsIn } from './jsonFields.ts';
import { PrunedItems, shape } from './jsonShape.ts';
import {
  addToolUses,
  fieldMarker,
  nameObject,
  nameOf,
  type ResponseFacts,
  type ResponseFormat,
  saidOf,
} from './responseFormat.ts';
import { responseIdOf } from './responseId.ts';
import { isToolItem, ToolItemCounter, usesInToolUsage, usesInUsage } from './toolUses.ts';

const ITEM = shape({
  id: 'value',
  type: 'value',
  container_id: 'value',
  action: 'value',
  model: 'value',
});
/** An item of a response in which the vendor ran no tool. */
const PLAIN_ITEM = shape({ id: 'value' });
const isItem = () => true;
const isImageTool = ({ type }: JsonRecord) => type === 'image_generation';
const BODY = {
  id: 'value',
  conversation: 'value',
  status: 'value',
  model: 'value',
  service_tier: 'value',
  usage: 'value',
  tool_usage: 'value',
} as const;
const RESPONSE = shape({
  ...BODY,
  output: { items: ITEM, keeps: isItem },
  tools: { items: shape({ type: 'value', model: 'value' }), keeps: isImageTool },
});
const EVENT = shape({
  type: 'value',
  response: { members: RESPONSE },
  item: { members: ITEM },
});
/** The status of a response that the vendor still works on. */
const UNFINISHED = new Set<unknown>(['queued', 'in_progress']);
/** The events before a response is finished: what they report is not its usage. */
const EARLY_EVENTS = new Set<unknown>(['response.created', 'response.queued', 'response.in_progress']);

const LAST_EVENTS = new Set<unknown>(['response.completed', 'response.incomplete', 'response.failed']);

/** Responses (https://platform.openai.com/docs/api-reference/responses). Events with a `response` report its usage. */
export const responsesFormat: ResponseFormat = {
  markers: [fieldMarker('response'), fieldMarker('item'), fieldMarker('error')],
  eventShape: EVENT,
  bodyShape: RESPONSE,
  plainBodyShape: shape({ ...BODY, output: { items: PLAIN_ITEM, keeps: isItem } }),
  details: [Buffer.from('_call"'), Buffer.from('image_gen')],

  readEvent({ type, response, item }, facts) {
    if (type === 'error' || type === 'response.failed') facts.failed = true;
    if (LAST_EVENTS.has(type)) facts.isOver = true;
    if (isRecord(item)) {
      nameItem(facts, item);
      if (type === 'response.output_item.done') countItem(facts, item);
    }
    if (isRecord(response)) readResponse(response, facts, EARLY_EVENTS.has(type));
    return false;
  },

  readBody: (body, facts) => readResponse(body, facts, false),

  textOfEvent: ({ type, delta }) =>
    typeof type === 'string' && type.endsWith('.delta') ? joinTexts([delta]) : '',

  textOfBody: ({ output }) =>
    joinTexts(
      recordsIn(output).flatMap((item) => [
        item.name,
        item.arguments,
        ...[...recordsIn(item.content), ...recordsIn(item.summary)].flatMap((part) => [
          part.text,
          part.refusal,
        ]),
      ]),
    ),
};

function readResponse(response: JsonRecord, facts: ResponseFacts, isEarly: boolean): void {
  facts.responseId ||= responseIdOf(response.id);
  nameObjects(response, facts);
  facts.model = nameOf(response.model) || facts.model;
  facts.status = nameOf(response.status);
  facts.pending = UNFINISHED.has(response.status);
  // Until it is served, the tier is the one that was asked for.
  if (facts.pending || isEarly) return;
  facts.said = { serviceTier: saidOf(response.service_tier) };
  const usage = usageFromResponses(response.usage);
  if (usage) facts.usage = usage;
  facts.isFinal = usage !== undefined;
  addToolUses(facts, usesInUsage(response.usage));
  addToolUses(facts, usesInToolUsage(response.tool_usage));
  if (response.output instanceof PrunedItems && response.output.kept.some(isToolItem)) {
    const items = new ToolItemCounter();
    for (const item of response.output.kept) items.add(item);
    addToolUses(facts, items.uses);
  }
  readImageTool(response, facts);
}

/** What a request may refer to later: output items, their containers, and the conversation. */
function nameObjects({ conversation, output }: JsonRecord, facts: ResponseFacts): void {
  if (output instanceof PrunedItems) for (const item of output.kept) nameItem(facts, item);
  if (conversation === undefined || conversation === null) return;
  const id = isRecord(conversation) ? conversation.id : conversation;
  nameObject(facts, id);
  if (!facts.objects) return;
  facts.objects.areLasting = true;
  facts.objects.conversation = responseIdOf(id);
}

function nameItem(facts: ResponseFacts, { id, container_id: container }: JsonRecord): void {
  nameObject(facts, id);
  nameObject(facts, container);
}

/** A stream that breaks off has not reported its tools. */
function countItem(facts: ResponseFacts, item: JsonRecord): void {
  if (!isToolItem(item)) return;
  facts.toolItems ??= new ToolItemCounter();
  facts.toolItems.add(item);
  addToolUses(facts, facts.toolItems.uses);
}

/** What the tool draws with unless the request says otherwise (https://platform.openai.com/docs/guides/tools-image-generation). */
const DEFAULT_IMAGE_MODEL = 'gpt-image-1';

/** Images that a tool made are billed by the tokens of the model that made them. */
function readImageTool({ tool_usage: reported, output, tools }: JsonRecord, facts: ResponseFacts): void {
  const tokens = usageFromResponses(isRecord(reported) ? reported.image_gen : undefined);
  if (!tokens || totalTokens(tokens) === 0) return;
  const called = output instanceof PrunedItems ? output.kept : [];
  const offered = tools instanceof PrunedItems ? tools.kept : [];
  const named = [...called.filter(({ type }) => type === 'image_generation_call'), ...offered];
  const model = named.map((item) => nameOf(item.model)).find((name) => name !== '') ?? DEFAULT_IMAGE_MODEL;
  facts.others = [{ model, tokens }];
}
