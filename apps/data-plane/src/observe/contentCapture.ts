import { redactSecrets, type SpanAttributes } from '@weighbridge/runtime';
import { parseSmall } from '../formats/fieldReader.ts';
import { isRecord, type JsonRecord } from '../formats/jsonFields.ts';
import type { RequestBody } from '../formats/requestBody.ts';

export interface ContentOptions {
  /** Maximum characters: the last of the prompt, and the first of the response. */
  readonly maxLength: number;
}

/** Prompts and responses as span attributes of the OpenTelemetry GenAI conventions; off unless an operator enables it. */
export interface ContentCapture {
  /** From the body sent to the vendor. */
  input(body: RequestBody): SpanAttributes;
  /** From what the model wrote. */
  output(text: string): SpanAttributes;
}

interface Message {
  readonly role: string;
  readonly parts: readonly Part[];
}

/** `content` is absent if the part is not text, such as an image. */
interface Part {
  readonly type: string;
  readonly content?: string;
  readonly name?: string;
}

/** A larger body is not parsed. */
const MAX_PARSED_BYTES = 256 * 1024;
const MAX_MESSAGES = 200;
const MAX_PARTS = 100;
/** For a type, a role or a tool's name. */
const MAX_WORD_LENGTH = 64;
/** The limit of a span attribute. Longer JSON would be truncated and invalid, so it is omitted. */
const MAX_JSON_LENGTH = 64 * 1024;
const OMITTED: SpanAttributes = { 'weighbridge.content.omitted': true };

export function createContentCapture({ maxLength }: ContentOptions): ContentCapture {
  return {
    input(body) {
      if (body.length > MAX_PARSED_BYTES) return OMITTED;
      const bytes = body.toBuffer();
      const request = parseSmall(bytes, { start: 0, end: bytes.length }, MAX_PARSED_BYTES);
      if (!isRecord(request)) return OMITTED;
      return attribute('gen_ai.input.messages', latest(messagesOf(request), maxLength));
    },
    output(text) {
      const content = redactSecrets(text).slice(0, maxLength);
      return attribute('gen_ai.output.messages', [{ role: 'assistant', parts: [{ type: 'text', content }] }]);
    },
  };
}

function attribute(name: string, messages: readonly Message[]): SpanAttributes {
  const json = JSON.stringify(messages);
  return json.length <= MAX_JSON_LENGTH ? { [name]: json } : OMITTED;
}

/** The last messages within `maxLength`; the first of them may be cut. */
function latest(messages: readonly Message[], maxLength: number): Message[] {
  const latestMessages: Message[] = [];
  let remaining = maxLength;
  for (const { role, parts } of messages.slice(-MAX_MESSAGES).reverse()) {
    if (remaining <= 0) break;
    const cut = parts.map((part) => {
      const content = part.content?.slice(0, remaining);
      remaining -= content?.length ?? 0;
      return content === undefined ? part : { ...part, content };
    });
    latestMessages.unshift({ role, parts: cut });
  }
  return latestMessages;
}

/** In any dialect: the system prompt first, then the messages. */
function messagesOf(request: JsonRecord): Message[] {
  const system = request.system ?? request.instructions;
  const given = request.messages ?? request.input;
  return [
    ...(system === undefined ? [] : [{ role: 'system', parts: partsOf(system) }]),
    ...(Array.isArray(given) ? given.map(messageOf) : [{ role: 'user', parts: partsOf(given) }]),
  ];
}

function messageOf(value: unknown): Message {
  if (!isRecord(value)) return { role: 'user', parts: partsOf(value) };
  const { role, content, type, tool_calls: calls } = value;
  // A Responses input item that is not a message.
  if (role === undefined && content === undefined) return { role: wordOf(type), parts: [partOf(value)] };
  return { role: wordOf(role), parts: [...partsOf(content), ...(calls === undefined ? [] : partsOf(calls))] };
}

function partsOf(value: unknown): Part[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value.slice(0, MAX_PARTS).map(partOf) : [partOf(value)];
}

function partOf(value: unknown): Part {
  if (typeof value === 'string') return { type: 'text', content: redactSecrets(value) };
  if (!isRecord(value)) return { type: 'other' };
  const named = isRecord(value.function) ? value.function : value;
  const text = [value.text, value.content, value.output, named.arguments, value.input].find(
    (one) => typeof one === 'string' || isRecord(one) || Array.isArray(one),
  );
  const type = wordOf(value.type);
  return {
    type,
    ...(typeof named.name === 'string' && { name: wordOf(named.name) }),
    ...(text !== undefined && {
      content: redactSecrets(typeof text === 'string' ? text : JSON.stringify(text)),
    }),
  };
}

/** The client controls it, so it is cut and redacted like text. */
function wordOf(value: unknown): string {
  return typeof value === 'string' ? redactSecrets(value).slice(0, MAX_WORD_LENGTH) : 'other';
}
