import type { Anthropic } from '@anthropic-ai/sdk';
import type { Content, GenerateContentConfig, Tool } from '@google/genai';
import type { OpenAI } from 'openai';
import type { Places } from './sdkPlaces.ts';

/** What a place names, and so who may have made it. `cited`: the content is there too, so that no record is needed. */
export type Kind =
  | 'response'
  | 'conversation'
  | 'item'
  | 'container'
  | 'file'
  | 'audio'
  | 'message'
  | 'cited container'
  | 'cited file'
  /** No route of this service makes one. */
  | 'outside'
  /** No vendor looks up anything by it. */
  | 'nothing';

export type ResponsesPlace = Places<OpenAI.Responses.ResponseCreateParams>;
export type MessagesPlace = Places<Anthropic.MessageCreateParams | Anthropic.Beta.MessageCreateParams>;
export type ChatPlace = Places<OpenAI.ChatCompletionCreateParams>;
type GeminiConfig = Omit<
  GenerateContentConfig,
  'tools' | 'systemInstruction' | 'httpOptions' | 'abortSignal'
>;
export type GeminiPlace =
  | Places<Content, '.contents[]'>
  | Places<Content, '.systemInstruction'>
  | Places<Tool, '.tools[]'>
  | Places<GeminiConfig>;

type ItemType<P> = P extends `.input[]{${infer Type}}.id`
  ? Type extends `${string}}${string}`
    ? never
    : Type
  : never;

/** The type-check fails if an SDK has an item with an id that is not listed. */
export const ITEM_TYPES = Object.keys({
  apply_patch_call: 0,
  apply_patch_call_output: 0,
  code_interpreter_call: 0,
  compaction: 0,
  computer_call: 0,
  computer_call_output: 0,
  custom_tool_call: 0,
  custom_tool_call_output: 0,
  file_search_call: 0,
  function_call: 0,
  function_call_output: 0,
  image_generation_call: 0,
  item_reference: 0,
  local_shell_call: 0,
  local_shell_call_output: 0,
  mcp_approval_request: 0,
  mcp_approval_response: 0,
  mcp_call: 0,
  mcp_list_tools: 0,
  message: 0,
  reasoning: 0,
  shell_call: 0,
  shell_call_output: 0,
  tool_search_call: 0,
  tool_search_output: 0,
  web_search_call: 0,
} satisfies Record<ItemType<ResponsesPlace>, 0>);

/** The type-check fails if an SDK has a place that is not listed, or lacks one that is. */
export const RESPONSES_PLACES = {
  '.previous_response_id': 'response',
  '.conversation': 'conversation',
  '.conversation.id': 'conversation',
  '.prompt.id': 'outside',
  '.input[]{code_interpreter_call}.container_id': 'container',
  '.input[]{computer_call_output}.acknowledged_safety_checks[].id': 'nothing',
  '.input[]{computer_call_output}.output{computer_screenshot}.file_id': 'file',
  '.input[]{computer_call}.pending_safety_checks[].id': 'nothing',
  '.input[]{custom_tool_call_output}.output[]{input_file}.file_id': 'file',
  '.input[]{custom_tool_call_output}.output[]{input_image}.file_id': 'file',
  '.input[]{file_search_call}.results[].file_id': 'cited file',
  '.input[]{function_call_output}.output[]{input_file}.file_id': 'file',
  '.input[]{function_call_output}.output[]{input_image}.file_id': 'file',
  '.input[]{mcp_approval_response}.approval_request_id': 'item',
  '.input[]{mcp_call}.approval_request_id': 'item',
  '.input[]{message}.content[]{input_file}.file_id': 'file',
  '.input[]{message}.content[]{input_image}.file_id': 'file',
  '.input[]{message}.content[]{output_text}.annotations[]{container_file_citation}.container_id':
    'cited container',
  '.input[]{message}.content[]{output_text}.annotations[]{container_file_citation}.file_id': 'cited file',
  '.input[]{message}.content[]{output_text}.annotations[]{file_citation}.file_id': 'cited file',
  '.input[]{message}.content[]{output_text}.annotations[]{file_path}.file_id': 'cited file',
  '.input[]{shell_call}.environment{container_reference}.container_id': 'container',
  '.input[]{tool_search_output}.tools[]{code_interpreter}.container': 'container',
  '.input[]{tool_search_output}.tools[]{code_interpreter}.container{auto}.file_ids[]': 'file',
  '.input[]{tool_search_output}.tools[]{file_search}.vector_store_ids[]': 'outside',
  '.input[]{tool_search_output}.tools[]{image_generation}.input_image_mask.file_id': 'file',
  '.input[]{tool_search_output}.tools[]{shell}.environment{container_auto}.file_ids[]': 'file',
  '.input[]{tool_search_output}.tools[]{shell}.environment{container_auto}.skills[]{skill_reference}.skill_id':
    'outside',
  '.input[]{tool_search_output}.tools[]{shell}.environment{container_reference}.container_id': 'container',
  '.tools[]{code_interpreter}.container': 'container',
  '.tools[]{code_interpreter}.container{auto}.file_ids[]': 'file',
  '.tools[]{file_search}.vector_store_ids[]': 'outside',
  '.tools[]{image_generation}.input_image_mask.file_id': 'file',
  '.tools[]{shell}.environment{container_auto}.file_ids[]': 'file',
  '.tools[]{shell}.environment{container_auto}.skills[]{skill_reference}.skill_id': 'outside',
  '.tools[]{shell}.environment{container_reference}.container_id': 'container',
} as const satisfies Record<Exclude<ResponsesPlace, `.input[]{${ItemType<ResponsesPlace>}}.id`>, Kind>;

export const MESSAGES_PLACES = {
  '.container': 'container',
  '.container.id': 'container',
  // The vendor's own, which are anyone's.
  '.container.skills[]{anthropic}.skill_id': 'nothing',
  '.container.skills[]{custom}.skill_id': 'outside',
  '.diagnostics.previous_message_id': 'message',
  '.thread{continue}.previous_message_id': 'message',
  '.messages[].content[]{bash_code_execution_tool_result}.content{bash_code_execution_result}.content[]{bash_code_execution_output}.file_id':
    'cited file',
  '.messages[].content[]{code_execution_tool_result}.content{code_execution_result}.content[]{code_execution_output}.file_id':
    'cited file',
  '.messages[].content[]{code_execution_tool_result}.content{encrypted_code_execution_result}.content[]{code_execution_output}.file_id':
    'cited file',
  '.messages[].content[]{container_upload}.file_id': 'file',
  '.messages[].content[]{document}.source{file}.file_id': 'file',
  '.messages[].content[]{image}.source{file}.file_id': 'file',
  '.messages[].content[]{tool_result}.content[]{document}.source{file}.file_id': 'file',
  '.messages[].content[]{tool_result}.content[]{image}.source{file}.file_id': 'file',
  '.messages[].content[]{web_fetch_tool_result}.content{web_fetch_result}.content{document}.source{file}.file_id':
    'file',
  // They link a call with its result.
  '.messages[].content[]{mcp_tool_use}.id': 'nothing',
  '.messages[].content[]{server_tool_use}.id': 'nothing',
  '.messages[].content[]{tool_use}.id': 'nothing',
} as const satisfies Record<MessagesPlace, Kind>;

export const CHAT_PLACES = {
  '.audio.voice.id': 'outside',
  '.messages[].audio.id': 'audio',
  '.messages[].content[]{file}.file.file_id': 'file',
  '.messages[].tool_calls[]{custom}.id': 'nothing',
  '.messages[].tool_calls[]{function}.id': 'nothing',
} as const satisfies Record<ChatPlace, Kind>;

export const GEMINI_PLACES = {
  '.cachedContent': 'outside',
  // Sealed by the vendor: who has one was shown it.
  '.continuationToken': 'nothing',
  '.contents[].parts[].codeExecutionResult.id': 'nothing',
  '.contents[].parts[].executableCode.id': 'nothing',
  '.contents[].parts[].fileData.fileUri': 'outside',
  '.contents[].parts[].functionCall.id': 'nothing',
  '.contents[].parts[].functionResponse.id': 'nothing',
  '.contents[].parts[].functionResponse.parts[].fileData.fileUri': 'outside',
  '.contents[].parts[].toolCall.id': 'nothing',
  '.contents[].parts[].toolResponse.id': 'nothing',
  '.systemInstruction.parts[].codeExecutionResult.id': 'nothing',
  '.systemInstruction.parts[].executableCode.id': 'nothing',
  '.systemInstruction.parts[].fileData.fileUri': 'outside',
  '.systemInstruction.parts[].functionCall.id': 'nothing',
  '.systemInstruction.parts[].functionResponse.id': 'nothing',
  '.systemInstruction.parts[].functionResponse.parts[].fileData.fileUri': 'outside',
  '.systemInstruction.parts[].toolCall.id': 'nothing',
  '.systemInstruction.parts[].toolResponse.id': 'nothing',
  '.tools[].fileSearch.fileSearchStoreNames[]': 'outside',
  '.tools[].retrieval.vertexAiSearch.dataStoreSpecs[].dataStore': 'outside',
  '.tools[].retrieval.vertexAiSearch.datastore': 'outside',
  '.tools[].retrieval.vertexAiSearch.engine': 'outside',
  '.tools[].retrieval.vertexRagStore.ragCorpora[]': 'outside',
  '.tools[].retrieval.vertexRagStore.ragResources[].ragCorpus': 'outside',
  '.tools[].retrieval.vertexRagStore.ragResources[].ragFileIds[]': 'outside',
} as const satisfies Record<GeminiPlace, Kind>;

/** The places of what a response shows, and whether a later request can name it. */
export const SHOWN_IN_RESPONSE = {
  '.id': 'response',
  '.conversation.id': 'conversation',
  '.output[]{apply_patch_call_output}.id': 'item',
  '.output[]{apply_patch_call}.id': 'item',
  '.output[]{code_interpreter_call}.id': 'item',
  '.output[]{compaction}.id': 'item',
  '.output[]{computer_call}.id': 'item',
  '.output[]{custom_tool_call}.id': 'item',
  '.output[]{file_search_call}.id': 'item',
  '.output[]{function_call}.id': 'item',
  '.output[]{image_generation_call}.id': 'item',
  '.output[]{local_shell_call}.id': 'item',
  '.output[]{mcp_approval_request}.id': 'item',
  '.output[]{mcp_call}.id': 'item',
  '.output[]{mcp_list_tools}.id': 'item',
  '.output[]{message}.id': 'item',
  '.output[]{reasoning}.id': 'item',
  '.output[]{shell_call_output}.id': 'item',
  '.output[]{shell_call}.id': 'item',
  '.output[]{tool_search_call}.id': 'item',
  '.output[]{tool_search_output}.id': 'item',
  '.output[]{web_search_call}.id': 'item',
  '.output[]{code_interpreter_call}.container_id': 'container',
  '.output[]{computer_call}.pending_safety_checks[].id': 'nothing',
  // Files of the caller's vector stores, which are made outside.
  '.output[]{file_search_call}.results[].file_id': 'nothing',
  '.output[]{message}.content[]{output_text}.annotations[]{file_citation}.file_id': 'nothing',
  // An item of its own.
  '.output[]{mcp_call}.approval_request_id': 'nothing',
  '.output[]{message}.content[]{output_text}.annotations[]{container_file_citation}.container_id':
    'container',
  '.output[]{message}.content[]{output_text}.annotations[]{container_file_citation}.file_id': 'file',
  '.output[]{message}.content[]{output_text}.annotations[]{file_path}.file_id': 'file',
  '.output[]{shell_call}.environment{container_reference}.container_id': 'container',
  // The request has these tools.
  '.output[]{tool_search_output}.tools[]{code_interpreter}.container': 'nothing',
  '.output[]{tool_search_output}.tools[]{code_interpreter}.container{auto}.file_ids[]': 'nothing',
  '.output[]{tool_search_output}.tools[]{file_search}.vector_store_ids[]': 'nothing',
  '.output[]{tool_search_output}.tools[]{image_generation}.input_image_mask.file_id': 'nothing',
  '.output[]{tool_search_output}.tools[]{shell}.environment{container_auto}.file_ids[]': 'nothing',
  '.output[]{tool_search_output}.tools[]{shell}.environment{container_auto}.skills[]{skill_reference}.skill_id':
    'nothing',
  '.output[]{tool_search_output}.tools[]{shell}.environment{container_reference}.container_id': 'nothing',
} as const satisfies Record<Places<Pick<OpenAI.Responses.Response, 'id' | 'conversation' | 'output'>>, Kind>;

/** The members of a stream's events that have ids. */
type IdMembers<E> = E extends unknown
  ? { [K in keyof E & string]: [Places<Pick<E, K>>] extends [never] ? never : K }[keyof E & string]
  : never;
export const SHOWN_IN_EVENTS = {
  response: 'as a response',
  item: 'as an item of its output',
  item_id: 'an item',
  part: 'as a part of an item',
} as const satisfies Record<IdMembers<OpenAI.Responses.ResponseStreamEvent>, string>;

export const SHOWN_IN_MESSAGE = {
  '{message}.id': 'message',
  '{message}.container.id': 'container',
  // The request named them.
  '{message}.container.skills[]{anthropic}.skill_id': 'nothing',
  '{message}.container.skills[]{custom}.skill_id': 'nothing',
  '{message}.content[]{bash_code_execution_tool_result}.content{bash_code_execution_result}.content[]{bash_code_execution_output}.file_id':
    'file',
  '{message}.content[]{code_execution_tool_result}.content{code_execution_result}.content[]{code_execution_output}.file_id':
    'file',
  '{message}.content[]{code_execution_tool_result}.content{encrypted_code_execution_result}.content[]{code_execution_output}.file_id':
    'file',
  '{message}.content[]{container_upload}.file_id': 'file',
  // The request named what is cited.
  '{message}.content[]{mcp_tool_result}.content[]{text}.citations[]{char_location}.file_id': 'nothing',
  '{message}.content[]{mcp_tool_result}.content[]{text}.citations[]{content_block_location}.file_id':
    'nothing',
  '{message}.content[]{mcp_tool_result}.content[]{text}.citations[]{page_location}.file_id': 'nothing',
  '{message}.content[]{text}.citations[]{char_location}.file_id': 'nothing',
  '{message}.content[]{text}.citations[]{content_block_location}.file_id': 'nothing',
  '{message}.content[]{text}.citations[]{page_location}.file_id': 'nothing',
  '{message}.content[]{mcp_tool_use}.id': 'nothing',
  '{message}.content[]{server_tool_use}.id': 'nothing',
  '{message}.content[]{tool_use}.id': 'nothing',
} as const satisfies Record<Places<Anthropic.Message | Anthropic.Beta.BetaMessage>, Kind>;

/** The members of a stream's events that have ids: a message, a block of its content, and a change of the message. */
export const SHOWN_IN_MESSAGE_EVENTS = {
  message: 0,
  content_block: 0,
  delta: 0,
} as const satisfies Record<
  IdMembers<Anthropic.RawMessageStreamEvent | Anthropic.Beta.BetaRawMessageStreamEvent>,
  0
>;

/** An object that has `id` at a place, and nothing else but what leads there. */
export function bodyAt(place: string, id: string): Record<string, unknown> {
  const [head = '', ...steps] = place.split('.');
  const body = membersOf(head);
  let open = body;
  for (const [at, step] of steps.entries()) {
    const [, name = '', list, tag] = /^(\w+)(\[\])?(\{[^}]+\})?$/.exec(step) ?? [];
    const isLast = at === steps.length - 1;
    const inner = isLast ? undefined : membersOf(tag ?? '');
    const value = inner ?? id;
    open[name] = list ? [value] : value;
    if (inner) open = inner;
  }
  return body;
}

function membersOf(tag: string): Record<string, unknown> {
  return tag === '' ? {} : { type: tag.slice(1, -1) };
}
