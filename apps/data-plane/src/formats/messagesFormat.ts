import { usageFromMessages, usageOfIterations } from '@weighbridge/domain';
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
import { ToolItemCounter, usesInUsage } from './toolUses.ts';

const isServerTool = ({ type }: JsonRecord) => type === 'server_tool_use';
/** Files that the vendor's tools made. */
const FILES: ItemsWanted = {
  items: shape({ file_id: 'value' }),
  keeps: ({ file_id: file }) => file !== undefined,
};
const BLOCK = shape({
  type: 'value',
  name: 'value',
  file_id: 'value',
  content: { members: shape({ content: FILES }) },
});
const isRead = (block: JsonRecord) => isServerTool(block) || hasFiles(block);
const BODY = { id: 'value', model: 'value', usage: 'value', container: 'value' } as const;
const MESSAGE = shape({
  ...BODY,
  content: { items: BLOCK, keeps: isRead },
});
const EVENT = shape({
  type: 'value',
  message: { members: MESSAGE },
  usage: 'value',
  delta: { members: shape({ stop_reason: 'value', container: 'value' }) },
  content_block: { members: BLOCK },
});

/**
 * Messages (https://docs.anthropic.com/en/api/messages-streaming). `message_start` reports the input. `message_delta`
 * reports the cumulative output, and may report the input again.
 */
export const messagesFormat: ResponseFormat = {
  markers: [
    fieldMarker('usage'),
    fieldMarker('error'),
    fieldMarker('content_block'),
    fieldMarker('message_stop'),
  ],
  eventShape: EVENT,
  bodyShape: MESSAGE,
  plainBodyShape: shape(BODY),
  details: [Buffer.from('server_tool_use'), fieldMarker('file_id')],

  readEvent(event, facts) {
    const { type, message, usage, delta, content_block: block } = event;
    if (type === 'error') facts.failed = true;
    if (type === 'message_stop') facts.isOver = true;
    if (type === 'message_start' && isRecord(message)) {
      facts.responseId = responseIdOf(message.id);
      facts.model = nameOf(message.model);
      mergeUsage(facts, message.usage);
      facts.partialUsage = usageFromMessages(facts.usageFields);
    }
    nameInEvent(event, facts);
    if (type === 'content_block_start' && isRecord(block) && isServerTool(block)) countBlock(facts, block);
    // Without usage, it says nothing of the output: that of `message_start` is not the whole.
    if (type === 'message_delta' && isRecord(usage)) {
      mergeUsage(facts, usage);
      readUsage(facts);
      facts.isFinal = isRecord(delta) && typeof delta.stop_reason === 'string';
    }
    return false;
  },

  readNames: nameInEvent,

  readBody({ id, model, usage, content, container }, facts) {
    facts.responseId = responseIdOf(id);
    facts.model = nameOf(model);
    nameContainer(facts, container);
    mergeUsage(facts, usage);
    readUsage(facts);
    facts.isFinal = facts.usage !== undefined;
    if (!(content instanceof PrunedItems)) return;
    for (const block of content.kept) {
      nameFiles(facts, block);
      countBlock(facts, block);
    }
  },

  textOfEvent: ({ delta }) =>
    isRecord(delta) ? joinTexts([delta.text, delta.thinking, delta.partial_json]) : '',

  textOfBody: ({ content }) =>
    joinTexts(
      recordsIn(content).flatMap((block) => [
        block.text,
        block.thinking,
        block.name,
        block.input === undefined ? undefined : JSON.stringify(block.input),
      ]),
    ),
};

function nameInEvent({ message, delta, content_block: block }: JsonRecord, facts: ResponseFacts): void {
  if (isRecord(message)) nameContainer(facts, message.container);
  if (isRecord(delta)) nameContainer(facts, delta.container);
  if (isRecord(block)) nameFiles(facts, block);
}

function hasFiles({ file_id: file, content }: JsonRecord): boolean {
  return file !== undefined || (isRecord(content) && content.content instanceof PrunedItems);
}

function nameFiles(facts: ResponseFacts, { file_id: file, content }: JsonRecord): void {
  nameObject(facts, file);
  if (!isRecord(content) || !(content.content instanceof PrunedItems)) return;
  for (const made of content.content.kept) nameObject(facts, made.file_id);
}

/** Where the vendor runs code; a later request may name it. */
function nameContainer(facts: ResponseFacts, container: unknown): void {
  if (isRecord(container)) nameObject(facts, container.id);
}

/** A later report omits what did not change, such as the split of cache writes by their time to live. */
function mergeUsage(facts: ResponseFacts, usage: unknown): void {
  if (!isRecord(usage)) return;
  const reported = Object.entries(usage).filter(([, value]) => value !== null);
  const fields = { ...facts.usageFields, ...Object.fromEntries(reported) };
  facts.usageFields = fields;
  facts.hasCacheLives = isRecord(fields.cache_creation);
  facts.said = {
    serviceTier: saidOf(fields.service_tier),
    speed: saidOf(fields.speed),
    geography: saidOf(fields.inference_geo),
  };
  addToolUses(facts, usesInUsage(fields));
}

function readUsage(facts: ResponseFacts): void {
  const usage = usageFromMessages(facts.usageFields);
  const iterations = usage && usageOfIterations(facts.usageFields.iterations, usage);
  facts.usage = iterations?.own ?? usage;
  if (!iterations) return;
  facts.others = iterations.others;
  facts.model = iterations.fallbackModel || facts.model;
}

/** Tools that are billed by use. The others, such as the advisor, are billed by their tokens, or not at all. */
const BILLED_TOOLS: ReadonlySet<unknown> = new Set(['web_search']);
/** Tools that run code in the one container of a message, which is billed by its hours: a message takes one of them. */
const CODE_TOOLS: ReadonlySet<unknown> = new Set([
  'code_execution',
  'bash_code_execution',
  'text_editor_code_execution',
]);

/** A stream that breaks off has not reported its server tools. */
function countBlock(facts: ResponseFacts, { name }: JsonRecord): void {
  if (CODE_TOOLS.has(name)) addToolUses(facts, { code_execution: 1 });
  if (typeof name !== 'string' || !BILLED_TOOLS.has(name)) return;
  facts.toolItems ??= new ToolItemCounter();
  facts.toolItems.count(name);
  addToolUses(facts, facts.toolItems.uses);
}
