import type { AnswerFormat, Asked, Conversation, Message, Tool, ToolChoice } from '../model/conversation.ts';
import { ANY_OBJECT, NOTHING_ASKED } from '../model/conversation.ts';
import type { OutputLimitName } from '../shared/behaviour.ts';
import { assertKnown, CHAT_FIELDS } from '../shared/knownFields.ts';
import {
  isRecord,
  type JsonRecord,
  optionalBoolean,
  optionalInteger,
  optionalText,
  parseModel,
  parseObject,
} from '../shared/parameters.ts';
import { LENIENT, type VendorTraits } from '../shared/traits.ts';
import { badRequest, extraForbidden, invalidType, missingParameter } from '../shared/vendorError.ts';

const ROLES = ['system', 'assistant', 'user', 'function', 'tool', 'developer'];
const MAX_CHOICES = 128;

/** A request to `/v1/chat/completions`, read. */
export interface ChatRequest extends Conversation {
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

/** Parses and validates a body like OpenAI; unknown parameters pass unless the vendor is strict. */
export function parseChatRequest(
  body: Buffer,
  traits: VendorTraits = LENIENT,
  honours: OutputLimitName | undefined = traits.honours,
): ChatRequest {
  const request = parseObject(body, traits);
  if (traits.strict) assertKnown(request, CHAT_FIELDS);
  if (traits.refusesStreamOptions && request.stream_options !== undefined)
    throw extraForbidden('stream_options');
  const stream = optionalBoolean(request, 'stream') ?? false;
  const tools = parseTools(request.tools);
  return {
    model: parseModel(request),
    messages: parseMessages(request.messages),
    tools,
    toolChoice: parseToolChoice(request.tool_choice, tools),
    choices: optionalInteger(request, 'n', MAX_CHOICES) ?? 1,
    maxOutputTokens: honours ? optionalInteger(request, honours) : parseOutputLimit(request),
    asked: parseAsked(request),
    answerFormat: answerFormat(request.response_format),
    body: request,
    stream,
    includeUsage: parseIncludeUsage(request.stream_options, stream),
  };
}

function parseMessages(messages: unknown): Message[] {
  if (messages === undefined) throw missingParameter('messages');
  if (!Array.isArray(messages)) throw invalidType('messages', 'an array of objects');
  if (messages.length === 0) {
    throw badRequest(
      "Invalid 'messages': empty array. Expected an array with minimum length 1.",
      'messages',
      'empty_array',
    );
  }
  return messages.map((message: unknown, at) => parseMessage(message, `messages[${at}]`));
}

function parseMessage(message: unknown, param: string): Message {
  if (!isRecord(message)) throw invalidType(param, 'an object');
  const { role } = message;
  if (role === undefined) throw missingParameter(`${param}.role`);
  if (typeof role !== 'string' || !ROLES.includes(role)) {
    const supported = ROLES.map((name) => `'${name}'`).join(', ');
    const message = `Invalid value: '${String(role)}'. Supported values are: ${supported}.`;
    throw badRequest(message, `${param}.role`, 'invalid_value');
  }
  return { role, text: textOf(message.content, role, `${param}.content`) };
}

function textOf(content: unknown, role: string, param: string): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) {
    // Images, sounds and files have no text and cost nothing here.
    return content.flatMap((part: unknown, at) => textOfPart(part, `${param}[${at}]`)).join('\n');
  }
  // An assistant that only called tools has said nothing.
  if ((content === null || content === undefined) && role === 'assistant') return '';
  if (content === undefined) throw missingParameter(param);
  throw invalidType(param, 'one of a string or array of objects');
}

function textOfPart(part: unknown, param: string): string[] {
  if (!isRecord(part)) throw invalidType(param, 'an object');
  if (typeof part.type !== 'string') throw missingParameter(`${param}.type`);
  const text = part.type === 'refusal' ? part.refusal : part.text;
  if (part.type === 'text' && typeof text !== 'string') throw missingParameter(`${param}.text`);
  return typeof text === 'string' ? [text] : [];
}

function parseTools(tools: unknown): Tool[] {
  if (tools === undefined || tools === null) return [];
  if (!Array.isArray(tools)) throw invalidType('tools', 'an array of objects');
  return tools.flatMap((tool: unknown, at) => {
    if (!isRecord(tool)) throw invalidType(`tools[${at}]`, 'an object');
    // Other types of tool are for the vendor to run, and this one runs none.
    if (tool.type !== 'function') return [];
    if (!isRecord(tool.function)) throw missingParameter(`tools[${at}].function`);
    const { name, parameters } = tool.function;
    if (typeof name !== 'string' || name === '') throw missingParameter(`tools[${at}].function.name`);
    return [{ name, parameters }];
  });
}

function parseToolChoice(choice: unknown, tools: readonly Tool[]): ToolChoice {
  if (choice === undefined || choice === null) return 'auto';
  if (choice === 'none') return choice;
  if (tools.length === 0) {
    const message =
      "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
    throw badRequest(message, 'tool_choice');
  }
  if (choice === 'auto' || choice === 'required') return choice;
  const name = isRecord(choice) && isRecord(choice.function) ? choice.function.name : undefined;
  if (typeof name !== 'string') throw invalidType('tool_choice', 'one of none, auto, required or a function');
  if (!tools.some((tool) => tool.name === name)) {
    throw badRequest(`Tool choice '${name}' not found in 'tools' parameter.`, 'tool_choice');
  }
  return { name };
}

/** OpenRouter's `models` are those that may answer instead. */
function parseAsked(request: JsonRecord): Asked {
  const models = Array.isArray(request.models) ? request.models : [];
  const searches = request.web_search_options !== undefined && request.web_search_options !== null;
  return {
    ...NOTHING_ASKED,
    serviceTier: optionalText(request, 'service_tier'),
    fallbacks: models
      .filter((model) => typeof model === 'string')
      .map((model) => ({ model, maxOutputTokens: undefined, speed: undefined })),
    // A request searches once.
    serverTools: searches ? [{ name: 'web_search', maxUses: 1, model: undefined }] : [],
  };
}

/** Of `response_format`, and of the `text.format` of responses, which has no inner object. */
export function answerFormat(format: unknown): AnswerFormat | undefined {
  if (!isRecord(format)) return undefined;
  if (format.type === 'json_object') return ANY_OBJECT;
  if (format.type !== 'json_schema') return undefined;
  const { schema } = isRecord(format.json_schema) ? format.json_schema : format;
  return isRecord(schema) ? { schema } : ANY_OBJECT;
}

function parseOutputLimit(request: JsonRecord): number | undefined {
  const older = optionalInteger(request, 'max_tokens');
  const newer = optionalInteger(request, 'max_completion_tokens');
  if (older !== undefined && newer !== undefined) {
    throw badRequest(
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      'max_tokens',
      'invalid_parameter_combination',
    );
  }
  return newer ?? older;
}

/** Whether a stream reports its usage; throws a 400 for options of what is no stream. */
export function parseIncludeUsage(options: unknown, stream: boolean): boolean {
  if (options === undefined || options === null) return false;
  if (!stream) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    throw badRequest(message, 'stream_options');
  }
  if (!isRecord(options)) throw invalidType('stream_options', 'an object');
  return optionalBoolean(options, 'include_usage') ?? false;
}
