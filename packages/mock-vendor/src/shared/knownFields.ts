import { isRecord, type JsonRecord } from './parameters.ts';
import { badRequest, type VendorError } from './vendorError.ts';

/** What a strict vendor takes, per operation: the fields of its SDK, and those that its agents send today. */
export interface KnownFields {
  readonly fields: ReadonlySet<string>;
  readonly toolTypes: ReadonlySet<string>;
  /** The vendor's own error for a field that it does not know. */
  readonly unknown: (field: string) => VendorError;
}

const set = (names: string): ReadonlySet<string> => new Set(names.trim().split(/\s+/));
const openaiUnknown = (field: string) =>
  badRequest(`Unknown parameter: '${field}'.`, field, 'unknown_parameter');
const anthropicUnknown = (field: string) => badRequest(`${field}: Extra inputs are not permitted`);

export const CHAT_FIELDS: KnownFields = {
  fields: set(`
    messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
    metadata modalities n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention
    reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
    tool_choice tools top_logprobs top_p user verbosity web_search_options
    models plugins provider route transforms reasoning usage`),
  toolTypes: set('function custom'),
  unknown: openaiUnknown,
};

export const RESPONSES_FIELDS: KnownFields = {
  fields: set(`
    background client_metadata context_management conversation include input instructions max_output_tokens
    max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key
    prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text
    tool_choice tools top_logprobs top_p truncation user`),
  toolTypes: set(`
    function custom namespace web_search web_search_2025_08_26 web_search_preview file_search code_interpreter
    image_generation mcp computer computer_use_preview local_shell shell apply_patch tool_search`),
  unknown: openaiUnknown,
};

export const MESSAGES_FIELDS: KnownFields = {
  fields: set(`
    max_tokens messages model billing_policy cache_control compaction container context_management diagnostics
    fallback_credit_token fallbacks inference_geo mcp_servers metadata output_config output_format service_tier speed
    stop_sequences stream system temperature thinking thread tool_choice tools top_k top_p user_profile_id
    workspace_id`),
  // Versions follow a name, as in web_search_20250305.
  toolTypes: set(`
    custom bash text_editor computer memory web_search web_fetch code_execution advisor tool_search_tool_regex
    tool_search_tool_bm25 mcp_toolset browser_toolset`),
  unknown: anthropicUnknown,
};

export const COMPLETIONS_FIELDS: KnownFields = {
  fields: set(`
    model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream
    stream_options suffix temperature top_p user`),
  toolTypes: set(''),
  unknown: openaiUnknown,
};

export const EMBEDDINGS_FIELDS: KnownFields = {
  fields: set('input model dimensions encoding_format user'),
  toolTypes: set(''),
  unknown: openaiUnknown,
};

/** Throws the vendor's 400 for a field or a tool that it does not know. */
export function assertKnown(request: JsonRecord, { fields, toolTypes, unknown }: KnownFields): void {
  for (const field of Object.keys(request)) if (!fields.has(field)) throw unknown(field);
  const { tools, thinking } = request;
  if (Array.isArray(tools)) {
    for (const [at, tool] of tools.entries()) {
      const type = isRecord(tool) ? (tool.type ?? 'custom') : undefined;
      if (typeof type !== 'string' || !toolTypes.has(toolName(type))) throw unknown(`tools[${at}].type`);
    }
  }
  const kind = isRecord(thinking) ? thinking.type : undefined;
  if (kind !== undefined && !['enabled', 'disabled', 'adaptive', 'between_tools'].includes(String(kind))) {
    throw unknown('thinking.type');
  }
}

/** The name of a server-side tool without its version, which is a date. */
export function toolName(type: string): string {
  return type.replace(/_(\d{8}|\d{4}_\d{2}_\d{2}|preview)$/, '');
}
