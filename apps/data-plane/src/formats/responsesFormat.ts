import { totalTokens, usageFromResponses } from '@weighbridge/domain';
import { isRecord, type JsonRecord, joinTexts, recordsIn } from './jsonFields.ts';
import { type ItemsWanted, PrunedItems, shape } from './jsonShape.ts';
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

/** Others are of the caller's vector stores. */
const MADE_FILES = new Set<unknown>(['container_file_citation', 'file_path']);
/** What a text cites: a file that the vendor's tools made, in a container. */
const CITATIONS: ItemsWanted = {
  items: shape({ type: 'value', file_id: 'value', container_id: 'value' }),
  keeps: ({ type, container_id: container }) => container !== undefined || MADE_FILES.has(type),
};
const CITING: ItemsWanted = {
  items: shape({ annotations: CITATIONS }),
  keeps: ({ annotations }) => annotations instanceof PrunedItems && annotations.kept.length > 0,
};
const NAMED = {
  id: 'value',
  container_id: 'value',
  environment: { members: shape({ type: 'value', container_id: 'value' }) },
  content: CITING,
} as const;
/** An item, as far as a later request may name it or what is in it. */
export const NAMING_ITEM = shape(NAMED);
const ITEM = shape({ ...NAMED, type: 'value', action: 'value', model: 'value' });
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
  item_id: 'value',
  part: { members: CITING.items },
  annotation: { members: CITATIONS.items },
});
const ITEM_ID = fieldMarker('item_id');
/** The status of a response that the vendor still works on. */
const UNFINISHED = new Set<unknown>(['queued', 'in_progress']);
/** The events before a response is finished: what they report is not its usage. */
const EARLY_EVENTS = new Set<unknown>(['response.created', 'response.queued', 'response.in_progress']);

const LAST_EVENTS = new Set<unknown>(['response.completed', 'response.incomplete', 'response.failed']);

/** Responses (https://platform.openai.com/docs/api-reference/responses). Events with a `response` report its usage. */
export const responsesFormat: ResponseFormat = {
  markers: [
    ...['response', 'item', 'error', 'part', 'annotation'].map(fieldMarker),
    // Vendors name an item before its parts; one that does not is read all the same.
    ITEM_ID,
  ],
  idMarker: ITEM_ID,
  eventShape: EVENT,
  bodyShape: RESPONSE,
  plainBodyShape: shape({ ...BODY, output: { items: PLAIN_ITEM, keeps: isItem } }),
  details: [
    Buffer.from('_call"'),
    Buffer.from('image_gen'),
    Buffer.from('"container_'),
    fieldMarker('file_path'),
  ],

  readEvent(event, facts) {
    const { type, response, item } = event;
    if (type === 'error' || type === 'response.failed') facts.failed = true;
    if (LAST_EVENTS.has(type)) facts.isOver = true;
    nameInEvent(event, facts);
    if (isRecord(item)) {
      if (type === 'response.output_item.done') countItem(facts, item);
      else if (type === 'response.output_item.added') countItem(facts, item, true);
    }
    if (isRecord(response)) readResponse(response, facts, EARLY_EVENTS.has(type));
    return false;
  },

  readNames(event, facts) {
    nameInEvent(event, facts);
    if (isRecord(event.response)) nameObjects(event.response, facts);
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
function nameObjects({ id: responseId, conversation, output }: JsonRecord, facts: ResponseFacts): void {
  facts.responseId ||= responseIdOf(responseId);
  if (output instanceof PrunedItems) for (const item of output.kept) nameItem(facts, item);
  if (conversation === undefined || conversation === null) return;
  const id = isRecord(conversation) ? conversation.id : conversation;
  nameObject(facts, id);
  if (!facts.objects) return;
  facts.objects.areLasting = true;
  facts.objects.conversation = responseIdOf(id);
}

function nameInEvent({ item, item_id: itemId, part, annotation }: JsonRecord, facts: ResponseFacts): void {
  if (isRecord(item)) nameItem(facts, item);
  nameObject(facts, itemId, 'item');
  if (isRecord(part)) nameCited(facts, part);
  if (isRecord(annotation) && CITATIONS.keeps(annotation)) nameCitation(facts, annotation);
}

/** Notes an item, and what it names: where its tools ran, and the files that they made. */
export function nameItem(facts: ResponseFacts, item: JsonRecord): void {
  const { id, container_id: container, environment, content } = item;
  nameObject(facts, id, 'item');
  nameObject(facts, container);
  if (isRecord(environment)) nameObject(facts, environment.container_id);
  if (content instanceof PrunedItems) for (const part of content.kept) nameCited(facts, part);
}

function nameCited(facts: ResponseFacts, { annotations }: JsonRecord): void {
  if (annotations instanceof PrunedItems) for (const one of annotations.kept) nameCitation(facts, one);
}

function nameCitation(facts: ResponseFacts, { file_id: file, container_id: container }: JsonRecord): void {
  nameObject(facts, container);
  nameObject(facts, file);
}

/** A stream that breaks off has not reported its tools. */
function countItem(facts: ResponseFacts, item: JsonRecord, begins = false): void {
  if (!isToolItem(item)) return;
  facts.toolItems ??= new ToolItemCounter();
  if (begins) facts.toolItems.begin(item);
  else facts.toolItems.add(item);
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
