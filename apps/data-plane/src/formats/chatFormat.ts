import { usageFromChat } from '@weighbridge/domain';
import { isRecord, type JsonRecord, joinTexts, recordsIn } from './jsonFields.ts';
import { PrunedItems, type Shape, shape } from './jsonShape.ts';
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

/** A citation of a page that the vendor searched for. */
const isCitation = ({ type }: JsonRecord) => type === 'url_citation';
const MESSAGE: Shape = shape({
  annotations: { items: shape({ type: 'value' }), keeps: isCitation },
  audio: { members: shape({ id: 'value' }) },
  executed_tools: { items: shape({ type: 'value', index: 'value' }), keeps: () => true },
});
const isTelling = (choice: JsonRecord) =>
  isFinished(choice) ||
  citesPages(choice) ||
  executedTools(choice).length > 0 ||
  audioOf(choice) !== undefined;
const BODY = {
  id: 'value',
  model: 'value',
  service_tier: 'value',
  usage: 'value',
} as const;
const RESPONSE: Shape = shape({
  ...BODY,
  // Groq reports the usage of a stream here.
  x_groq: { members: shape({ usage: 'value', service_tier: 'value' }) },
  error: 'presence',
  choices: {
    items: shape({
      index: 'value',
      finish_reason: 'value',
      message: { members: MESSAGE },
      delta: { members: MESSAGE },
    }),
    keeps: isTelling,
  },
});

/** Chat completions (https://platform.openai.com/docs/api-reference/chat), and embeddings, which report usage alike. */
export const chatFormat: ResponseFormat = {
  markers: [
    ...[fieldMarker('usage'), fieldMarker('error'), fieldMarker('annotations'), fieldMarker('audio')],
    fieldMarker('executed_tools'),
  ],
  eventShape: RESPONSE,
  bodyShape: RESPONSE,
  plainBodyShape: shape(BODY),
  details: [
    Buffer.from('url_citation'),
    Buffer.from('x_groq'),
    fieldMarker('executed_tools'),
    fieldMarker('audio'),
  ],

  readEvent(chunk, facts) {
    const { choices } = chunk;
    if (chunk.error && choices === undefined) facts.failed = true;
    if (!readResponse(chunk, facts)) return false;
    const isOnlyUsage = choices instanceof PrunedItems && choices.count === 0;
    // Some vendors report what was used so far in every chunk.
    facts.isFinal = isOnlyUsage || (choices instanceof PrunedItems && choices.kept.some(isFinished));
    return isOnlyUsage;
  },

  readNames: nameAudio,

  readBody(body, facts) {
    facts.isFinal = readResponse(body, facts);
  },

  textOfEvent: (chunk) =>
    recordsIn(chunk.choices)
      .map(({ delta }) => textOfMessage(delta))
      .join(''),
  textOfBody: (response) =>
    recordsIn(response.choices)
      .map(({ message }) => textOfMessage(message))
      .join(''),
};

/** Returns true if it reports usage. */
function readResponse(response: JsonRecord, facts: ResponseFacts): boolean {
  const groq = isRecord(response.x_groq) ? response.x_groq : NOTHING;
  facts.responseId ||= responseIdOf(response.id);
  facts.model = nameOf(response.model) || facts.model;
  const serviceTier = saidOf(response.service_tier) ?? saidOf(groq.service_tier);
  if (serviceTier !== undefined) facts.said = { serviceTier };
  const { choices } = response;
  if (choices instanceof PrunedItems && choices.kept.some(citesPages)) addToolUses(facts, ONE_SEARCH);
  countExecuted(response, facts);
  nameAudio(response, facts);
  const reported = response.usage ?? groq.usage;
  addToolUses(facts, usesInUsage(reported));
  const usage = usageFromChat(reported);
  if (!usage) return false;
  facts.usage = usage;
  if (SEARCH_MODEL.test(facts.model)) addToolUses(facts, ONE_SEARCH);
  return true;
}

/** Tools that Groq ran (https://console.groq.com/docs/compound/built-in-tools). A stream may repeat one, with its output. */
function countExecuted({ choices }: JsonRecord, facts: ResponseFacts): void {
  if (!(choices instanceof PrunedItems)) return;
  for (const choice of choices.kept) {
    for (const { type, index } of executedTools(choice)) {
      facts.toolItems ??= new ToolItemCounter();
      facts.toolItems.addExecuted(type, `${choice.index} ${index}`);
      addToolUses(facts, facts.toolItems.uses);
    }
  }
}

function executedTools({ message, delta }: JsonRecord): readonly JsonRecord[] {
  for (const part of [message, delta]) {
    if (isRecord(part) && part.executed_tools instanceof PrunedItems) return part.executed_tools.kept;
  }
  return [];
}

/** A later request may name it instead of what was said. */
function nameAudio({ choices }: JsonRecord, facts: ResponseFacts): void {
  if (!(choices instanceof PrunedItems)) return;
  for (const choice of choices.kept) nameObject(facts, audioOf(choice)?.id);
}

/** OpenAI's models that search for every answer (https://platform.openai.com/docs/guides/tools-web-search). */
const SEARCH_MODEL = /-search-(preview|api)/;

const NOTHING: JsonRecord = {};
/** A model that searched says so by its citations alone. */
const ONE_SEARCH = { web_search: 1 };

function isFinished({ finish_reason: reason }: JsonRecord): boolean {
  return typeof reason === 'string';
}

function citesPages({ message, delta }: JsonRecord): boolean {
  return [message, delta].some(
    (part) => isRecord(part) && part.annotations instanceof PrunedItems && part.annotations.kept.length > 0,
  );
}

function audioOf({ message, delta }: JsonRecord): JsonRecord | undefined {
  for (const part of [message, delta]) if (isRecord(part) && isRecord(part.audio)) return part.audio;
  return undefined;
}

function textOfMessage(message: unknown): string {
  if (!isRecord(message)) return '';
  const calls = recordsIn(message.tool_calls).map(({ function: called }) => called as JsonRecord | undefined);
  return joinTexts([
    message.reasoning_content,
    message.reasoning,
    message.content,
    message.refusal,
    ...calls.flatMap((called) => (isRecord(called) ? [called.name, called.arguments] : [])),
  ]);
}
