import {
  type Asked,
  type Conversation,
  type Message,
  NOTHING_ASKED,
  type ServerTool,
  type Tool,
  type ToolChoice,
} from '../model/conversation.ts';
import type { ResponseStore, StoredResponse } from '../records/responseStore.ts';
import { newId } from '../shared/ids.ts';
import { assertKnown, RESPONSES_FIELDS, toolName } from '../shared/knownFields.ts';
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
import { badRequest, invalidType, missingParameter, VendorError } from '../shared/vendorError.ts';
import { answerFormat } from './chatRequest.ts';

/** A parsed request to `/v1/responses`. */
export interface ResponsesRequest extends Conversation {
  readonly stream: boolean;
  readonly store: boolean;
  /** The reply has the status queued; the stored response is complete after `x-mock-background-ms`. */
  readonly background: boolean;
  readonly previousResponseId: string | null;
  readonly conversationId: string | null;
  readonly instructions: string | null;
  /** In the form in which they are retrieved. */
  readonly inputItems: readonly unknown[];
  /** Where the tools of earlier responses ran; the newest last. */
  readonly containers: readonly string[];
}

/** Parses and validates a body like OpenAI; unknown parameters are ignored unless the vendor is strict. */
export function parseResponsesRequest(
  body: Buffer,
  stored: ResponseStore,
  traits: VendorTraits = LENIENT,
): ResponsesRequest {
  const request = parseObject(body, traits);
  if (traits.strict) assertStrict(request);
  const { input, instructions, previous_response_id: previousId } = request;
  if (input === undefined) throw missingParameter('input');
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  if (!Array.isArray(items)) throw invalidType('input', 'a string or an array of objects');
  const previous = typeof previousId === 'string' ? previousResponse(previousId, stored) : undefined;
  const containers = [...(previous?.containers ?? []), ...containersIn(items)];
  const system = typeof instructions === 'string' ? [{ role: 'system', text: instructions }] : [];
  return {
    model: parseModel(request),
    messages: [
      ...system,
      ...(previous?.messages ?? []),
      ...items.map((item: unknown, at) => parseItem(item, `input[${at}]`)),
    ],
    containers,
    tools: [
      ...parseTools(request.tools),
      ...items.filter(isRecord).flatMap(({ tools }) => parseTools(tools)),
    ],
    toolChoice: parseToolChoice(request.tool_choice),
    choices: 1,
    maxOutputTokens: optionalInteger(request, 'max_output_tokens'),
    asked: parseAsked(request, items.filter(isRecord), containers.at(-1)),
    answerFormat: answerFormat(isRecord(request.text) ? request.text.format : undefined),
    body: request,
    stream: optionalBoolean(request, 'stream') ?? false,
    store: optionalBoolean(request, 'store') ?? true,
    background: optionalBoolean(request, 'background') ?? false,
    previousResponseId: typeof previousId === 'string' ? previousId : null,
    conversationId: conversationId(request.conversation),
    instructions: typeof instructions === 'string' ? instructions : null,
    inputItems: items.map((item: unknown) => ({ id: newId('msg_'), type: 'message', ...(item as object) })),
  };
}

function conversationId(conversation: unknown): string | null {
  const id = isRecord(conversation) ? conversation.id : conversation;
  return typeof id === 'string' ? id : null;
}

function assertStrict(request: JsonRecord): void {
  assertKnown(request, RESPONSES_FIELDS);
  if (request.background === true && request.store === false) {
    throw badRequest("Background mode requires 'store' to be true.", 'background');
  }
}

/** By these names their uses are billed. */
const SERVER_TOOLS = new Set([
  'web_search',
  'code_interpreter',
  'file_search',
  'image_generation',
  'mcp',
  'computer_use',
  'shell',
]);

function parseAsked(request: JsonRecord, items: readonly JsonRecord[], reusable: string | undefined): Asked {
  const lists = [request.tools, ...items.map(({ tools }) => tools)];
  const tools = lists.flatMap((list) => (Array.isArray(list) ? list.filter(isRecord) : []));
  return {
    ...NOTHING_ASKED,
    serviceTier: optionalText(request, 'service_tier'),
    serverTools: tools.flatMap((tool) => parseServerTool(tool, reusable)),
    maxToolCalls: optionalInteger(request, 'max_tool_calls'),
  };
}

function parseServerTool(tool: JsonRecord, reusable: string | undefined): ServerTool[] {
  const { type, model } = tool;
  const name = typeof type === 'string' ? toolName(type) : '';
  if (!SERVER_TOOLS.has(name)) return [];
  if (name === 'code_interpreter') return [inContainer(name, tool.container, reusable)];
  if (name === 'shell')
    return isHosted(tool.environment) ? [inContainer(name, tool.environment, reusable)] : [];
  const painter = name === 'image_generation' ? 'gpt-image-1' : undefined;
  return [{ name, maxUses: undefined, model: typeof model === 'string' ? model : painter }];
}

function isHosted(environment: unknown): boolean {
  return isRecord(environment) && environment.type !== 'local';
}

/**
 * It is billed by the memory of its container, whose id has its size, such as `cntr_64g_1`. Unless the request names one, it is
 * that of earlier calls, whatever size is asked for; without earlier calls, each call gets a new one.
 */
function inContainer(name: string, container: unknown, reusable: string | undefined): ServerTool {
  const asked = isRecord(container) ? container : { container_id: container };
  const named = typeof asked.container_id === 'string' ? asked.container_id : reusable;
  const size = named === undefined ? String(asked.memory_limit ?? '1g') : sizeOf(named);
  const billedAs = size === '1g' ? name : `${name}_${size}`;
  const tool = { name, maxUses: undefined, model: undefined, billedAs };
  return named === undefined ? tool : { ...tool, container: named, isBilledOnce: true };
}

function sizeOf(container: string): string {
  return /^cntr_(\d+g)_/.exec(container)?.[1] ?? '1g';
}

/** The containers that items of the conversation name. */
export function containersIn(items: readonly unknown[]): string[] {
  return items.filter(isRecord).flatMap(({ container_id: own, environment }) => {
    const id = isRecord(environment) ? environment.container_id : own;
    return typeof id === 'string' ? [id] : [];
  });
}

function previousResponse(id: string, stored: ResponseStore): StoredResponse {
  const previous = stored.get(id);
  if (previous) return previous;
  throw new VendorError(400, `Previous response with id '${id}' not found.`, {
    param: 'previous_response_id',
    code: 'previous_response_not_found',
  });
}

/** Items of the assistant without text. */
const SAY_NOTHING = new Set([
  'function_call',
  'custom_tool_call',
  'code_interpreter_call',
  'item_reference',
  'reasoning',
  'compaction',
]);

function parseItem(item: unknown, param: string): Message {
  if (!isRecord(item)) throw invalidType(param, 'an object');
  const type = String(item.type);
  if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    return {
      role: 'tool',
      text: Array.isArray(item.output) ? textOf(item.output, param) : String(item.output),
    };
  }
  if (SAY_NOTHING.has(type)) {
    return { role: 'assistant', text: '' };
  }
  // Tools of a developer, among the messages.
  if (type === 'additional_tools') return { role: 'developer', text: '' };
  const role = typeof item.role === 'string' ? item.role : 'user';
  return { role, text: textOf(item.content, `${param}.content`) };
}

function textOf(content: unknown, param: string): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw missingParameter(param);
  return content
    .filter(isRecord)
    .flatMap(({ text }: JsonRecord) => (typeof text === 'string' ? [text] : []))
    .join('\n');
}

function parseTools(tools: unknown, namespace?: string): Tool[] {
  if (!Array.isArray(tools)) return [];
  return tools.filter(isRecord).flatMap(({ type, name, parameters, tools: inner }: JsonRecord) => {
    if (typeof name !== 'string') return [];
    if (type === 'namespace') return parseTools(inner, name);
    if (type === 'custom') return [{ name, parameters: undefined, custom: { namespace } }];
    return type === 'function' ? [{ name, parameters }] : [];
  });
}

function parseToolChoice(choice: unknown): ToolChoice {
  if (choice === 'none' || choice === 'required') return choice;
  return isRecord(choice) && typeof choice.name === 'string' ? { name: choice.name } : 'auto';
}
