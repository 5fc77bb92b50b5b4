import {
  bounded,
  count,
  describedByVendor,
  type Field,
  type Fields,
  fillsContext,
  free,
  freeFields,
  model,
  object,
  serverTool,
  variants,
} from './field.ts';

const TOOL_FIELDS = freeFields(
  'type',
  'name',
  'allowed_callers',
  'cache_control',
  'defer_loading',
  'eager_input_streaming',
  'input_examples',
  'strict',
);
/** Tools that the client runs. */
const CUSTOM = object({ ...TOOL_FIELDS, ...freeFields('description', 'input_schema') });
const SHELL = describedByVendor(object(TOOL_FIELDS));
const EDITOR = describedByVendor(object({ ...TOOL_FIELDS, max_characters: free }));
const COMPUTER = describedByVendor(
  object({
    ...TOOL_FIELDS,
    ...freeFields('display_height_px', 'display_width_px', 'display_number', 'enable_zoom'),
  }),
);
function setOfTools(fields: Fields): Field {
  return { ...fillsContext, value: { kind: 'object', fields } };
}
/** Some thirty tools, which the vendor describes. */
const TOOLSET = setOfTools({
  ...TOOL_FIELDS,
  ...freeFields('configs', 'default_config', 'display', 'viewport', 'display_height_px', 'display_width_px'),
});

const CLIENT_TOOLS = {
  custom: CUSTOM,
  bash_20241022: SHELL,
  bash_20250124: SHELL,
  memory_20250818: SHELL,
  text_editor_20241022: EDITOR,
  text_editor_20250124: EDITOR,
  text_editor_20250429: EDITOR,
  text_editor_20250728: EDITOR,
  computer_20241022: COMPUTER,
  computer_20250124: COMPUTER,
  computer_20251124: COMPUTER,
  computer_toolset_20260801: TOOLSET,
  browser_toolset_20260801: TOOLSET,
} as const;

const LIMITED = { ...TOOL_FIELDS, max_uses: count('uses of the tool') } as const;
const SEARCH = serverTool('web_search', 'max_uses', {
  kind: 'object',
  fields: {
    ...LIMITED,
    ...freeFields('allowed_domains', 'blocked_domains', 'user_location', 'response_inclusion'),
  },
});
const FETCH = serverTool('web_fetch', 'max_uses', {
  kind: 'object',
  fields: {
    ...LIMITED,
    ...freeFields('allowed_domains', 'blocked_domains', 'citations', 'response_inclusion', 'use_cache'),
    ...freeFields('url_sources'),
    max_content_tokens: bounded('the context window of the model'),
  },
});
const CODE_EXECUTION = serverTool('code_execution', undefined, { kind: 'object', fields: TOOL_FIELDS });
/** They filter what they found by code, which the vendor then bills in no tool of the request (https://platform.claude.com/docs). */
function withFreeCode<F extends Field>(field: F): F {
  return field.tool ? { ...field, tool: { ...field.tool, frees: 'code_execution' } } : field;
}
const SEARCH_WITH_CODE = withFreeCode(SEARCH);
const FETCH_WITH_CODE = withFreeCode(FETCH);
const TOOL_SEARCH = serverTool('tool_search');

const SERVER_TOOLS = {
  web_search_20250305: SEARCH,
  web_search_20260209: SEARCH_WITH_CODE,
  web_search_20260318: SEARCH_WITH_CODE,
  web_fetch_20250910: FETCH,
  web_fetch_20260209: FETCH_WITH_CODE,
  web_fetch_20260309: FETCH_WITH_CODE,
  web_fetch_20260318: FETCH_WITH_CODE,
  code_execution_20250522: CODE_EXECUTION,
  code_execution_20250825: CODE_EXECUTION,
  code_execution_20260120: CODE_EXECUTION,
  code_execution_20260521: CODE_EXECUTION,
  tool_search_tool_bm25: TOOL_SEARCH,
  tool_search_tool_bm25_20251119: TOOL_SEARCH,
  tool_search_tool_regex: TOOL_SEARCH,
  tool_search_tool_regex_20251119: TOOL_SEARCH,
  mcp_toolset: serverTool('mcp'),
  // A second model, which reads the whole conversation at its own price.
  advisor_20260301: serverTool('advisor', undefined, {
    kind: 'object',
    fields: { ...LIMITED, model, ...freeFields('caching', 'max_tokens') },
  }),
} as const;

/** What a message's tools may be: those that the client runs, and those that the vendor runs. */
export const MESSAGES_TOOLS = variants('type', { ...CLIENT_TOOLS, ...SERVER_TOOLS }, CUSTOM);

/** Tools that a message adds during a conversation: they can't be removed from it. */
export const MESSAGES_TOOL_DEFINITIONS: Field = variants('type', CLIENT_TOOLS, CUSTOM);
