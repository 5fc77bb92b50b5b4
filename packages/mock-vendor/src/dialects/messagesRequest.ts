import type {
  Asked,
  Conversation,
  Fallback,
  Message,
  ServerTool,
  Tool,
  ToolChoice,
} from '../model/conversation.ts';
import { assertKnown, MESSAGES_FIELDS, toolName } from '../shared/knownFields.ts';
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
import { badRequest } from '../shared/vendorError.ts';
import { answerFormat } from './chatRequest.ts';

/** A parsed request to `/v1/messages`. */
export interface MessagesRequest extends Conversation {
  readonly stream: boolean;
}

/** Parses and validates a body like Anthropic; unknown parameters are ignored unless the vendor is strict. */
export function parseMessagesRequest(
  body: Buffer,
  options: { needsMaxTokens: boolean },
  traits: VendorTraits = LENIENT,
): MessagesRequest {
  const request = parseObject(body, traits);
  if (traits.strict) assertKnown(request, MESSAGES_FIELDS);
  const model = parseModel(request);
  const maxOutputTokens = optionalInteger(request, 'max_tokens');
  if (options.needsMaxTokens && maxOutputTokens === undefined) throw badRequest('max_tokens: Field required');
  return {
    model,
    messages: [...systemMessage(request.system), ...parseMessages(request.messages)],
    tools: parseTools(request.tools),
    toolChoice: parseToolChoice(request.tool_choice),
    choices: 1,
    maxOutputTokens,
    asked: parseAsked(request),
    answerFormat: answerFormat(
      isRecord(request.output_config) ? request.output_config.format : request.output_format,
    ),
    body: request,
    stream: optionalBoolean(request, 'stream') ?? false,
  };
}

function parseAsked(request: JsonRecord): Asked {
  const tools = Array.isArray(request.tools) ? request.tools.filter(isRecord) : [];
  const fallbacks = Array.isArray(request.fallbacks) ? request.fallbacks.filter(isRecord) : [];
  const tier = optionalText(request, 'service_tier');
  return {
    serviceTier: tier === 'standard_only' ? 'standard' : tier,
    speed: optionalText(request, 'speed'),
    geography: optionalText(request, 'inference_geo'),
    fallbacks: fallbacks.flatMap(parseFallback),
    serverTools: tools.flatMap((tool) => parseServerTool(tool, tools)),
    reportsIterations: true,
    maxToolCalls: undefined,
  };
}

function parseFallback(fallback: JsonRecord): Fallback[] {
  const { model, speed } = fallback;
  if (typeof model !== 'string') throw badRequest('fallbacks: model: Field required');
  const maxOutputTokens = optionalInteger(fallback, 'max_tokens');
  return [{ model, maxOutputTokens, speed: typeof speed === 'string' ? speed : undefined }];
}

const SERVER_TOOLS = new Set(['web_search', 'web_fetch', 'code_execution', 'advisor']);

/** Code that filters what these found is free, and with it all code of the request. */
const FREES_CODE = /^web_(search|fetch)_2026/;

function parseServerTool(tool: JsonRecord, tools: readonly JsonRecord[]): ServerTool[] {
  const name = typeof tool.type === 'string' ? toolName(tool.type) : '';
  if (!SERVER_TOOLS.has(name)) return [];
  const model = typeof tool.model === 'string' ? tool.model : undefined;
  const maxUses = optionalInteger(tool, 'max_uses');
  if (name !== 'code_execution') return [{ name, maxUses, model }];
  const isFree = tools.some(({ type }) => typeof type === 'string' && FREES_CODE.test(type));
  return [{ name, maxUses, model, billedAs: isFree ? null : name, isBilledOnce: true }];
}

function systemMessage(system: unknown): Message[] {
  return system === undefined ? [] : [{ role: 'system', text: textOf(system, 'system') }];
}

function parseMessages(messages: unknown): Message[] {
  if (!Array.isArray(messages)) throw badRequest('messages: Field required');
  if (messages.length === 0) throw badRequest('messages: at least one message is required');
  return messages.map((message: unknown, at) => {
    if (!isRecord(message)) throw badRequest(`messages.${at}: Input should be an object`);
    const { role, content } = message;
    if (role !== 'user' && role !== 'assistant' && role !== 'system') {
      throw badRequest(`messages.${at}.role: Input should be 'user', 'assistant' or 'system'`);
    }
    const text = textOf(content, `messages.${at}.content`);
    return { role: isToolResult(content) ? 'tool' : role, text };
  });
}

function isToolResult(content: unknown): boolean {
  return Array.isArray(content) && content.some((block) => isRecord(block) && block.type === 'tool_result');
}

function textOf(content: unknown, param: string): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw badRequest(`${param}: Field required`);
  return content
    .flatMap((block: unknown) => {
      if (!isRecord(block)) throw badRequest(`${param}: Input should be an object`);
      if (block.type === 'tool_result' && block.content !== undefined) return [textOf(block.content, param)];
      return typeof block.text === 'string' ? [block.text] : [];
    })
    .join('\n');
}

function parseTools(tools: unknown): Tool[] {
  if (!Array.isArray(tools)) return [];
  return tools.filter(isRecord).flatMap(({ name, input_schema: parameters }: JsonRecord) =>
    // Tools without a schema run at the vendor; this one runs none.
    typeof name === 'string' && parameters !== undefined ? [{ name, parameters }] : [],
  );
}

function parseToolChoice(choice: unknown): ToolChoice {
  if (!isRecord(choice)) return 'auto';
  if (choice.type === 'any') return 'required';
  if (choice.type === 'tool') return { name: String(choice.name) };
  return choice.type === 'none' ? 'none' : 'auto';
}
