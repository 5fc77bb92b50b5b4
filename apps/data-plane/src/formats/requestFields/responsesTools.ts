import {
  bounded,
  containerSize,
  describedByVendor,
  free,
  freeFields,
  kinds,
  list,
  MAX_TOOLS,
  model,
  object,
  only,
  outsideId,
  outsideIds,
  refersTo,
  serverTool,
  sizedTool,
  storedId,
  variants,
} from './field.ts';

/** Functions that the client runs. */
const FUNCTION = object(
  freeFields(
    'type',
    'name',
    'description',
    'parameters',
    'strict',
    'function',
    'allowed_callers',
    'async',
    'defer_loading',
    'output_schema',
  ),
);
const CUSTOM = object(
  freeFields('type', 'name', 'description', 'format', 'allowed_callers', 'async', 'defer_loading'),
);
const COMPUTER = describedByVendor(
  object(freeFields('type', 'display_height', 'display_width', 'environment')),
);
const WEB_SEARCH = serverTool('web_search', 'max_tool_calls', {
  kind: 'object',
  fields: freeFields(
    ...['type', 'filters', 'user_location', 'search_content_types', 'allowed_callers'],
    // The vendor bills a search alike in each of them.
    'search_context_size',
    // Of xAI and compatible vendors.
    ...['allowed_domains', 'excluded_domains', 'external_web_access', 'enable_image_understanding'],
    ...['return_token_budget', 'image_settings'],
  ),
});
const X_SEARCH = serverTool('x_search', 'max_tool_calls', {
  kind: 'object',
  fields: freeFields(
    ...['type', 'allowed_x_handles', 'excluded_x_handles', 'from_date', 'to_date'],
    ...['enable_image_understanding', 'enable_video_understanding'],
  ),
});
const IMAGE_GENERATION = serverTool('image_generation', undefined, {
  kind: 'object',
  fields: {
    ...freeFields('type', 'action', 'background', 'complexity', 'frame_count', 'frame_duration_ms'),
    ...freeFields('input_fidelity', 'moderation', 'output_compression', 'output_format'),
    ...freeFields('partial_images', 'quality', 'size'),
    input_image_mask: object({ file_id: outsideId, image_url: free }),
    model,
    svg: object({ model, reasoning: free }),
  },
});

const FILES = outsideIds();
/** Where a tool of the vendor runs. */
const CONTAINER = {
  container_id: storedId,
  file_ids: FILES,
  skills: list(object({ skill_id: outsideId })),
} as const;
/** What the model reads of them, it reads within its context window. */
const CONTENTS = bounded('the context window of the model');
const ANY_CONTAINER = { memory_limit: containerSize, network_policy: free, file_ids: CONTENTS } as const;
const HOSTED = 'itself';
/** Where a shell runs: at the client, or in a container of the vendor. */
const SHELL_ENVIRONMENT = variants('type', {
  local: object({ type: only('local'), skills: free }),
  container_auto: sizedTool('shell', HOSTED, 'max_tool_calls', {
    kind: 'object',
    fields: { type: free, ...ANY_CONTAINER, skills: CONTENTS },
  }),
  container_reference: sizedTool('shell', HOSTED, 'max_tool_calls', {
    kind: 'object',
    fields: { type: free, container_id: bounded('the dearest size, which is reserved') },
  }),
});
export const CODE_CONTAINER = {
  container: kinds({ scalar: storedId, object: object({ file_ids: FILES }) }),
} as const;
/** What OpenAI runs code in: by its id, or a new one. */
export const CODE_INTERPRETER = {
  kind: 'object',
  fields: {
    ...freeFields('type', 'allowed_callers'),
    container: kinds({
      scalar: bounded('the dearest size, which is reserved'),
      object: object({ type: free, ...ANY_CONTAINER }),
    }),
  },
} as const;

/** What the tools of a response may be: those that the client runs, and those that the vendor runs. */
export const RESPONSES_TOOLS = variants('type', {
  function: FUNCTION,
  custom: CUSTOM,
  namespace: object({
    ...freeFields('type', 'name', 'description'),
    tools: list(variants('type', { function: FUNCTION, custom: CUSTOM }), MAX_TOOLS),
  }),
  local_shell: describedByVendor(object(freeFields('type'))),
  apply_patch: describedByVendor(object(freeFields('type', 'allowed_callers'))),
  computer: COMPUTER,
  computer_use_preview: COMPUTER,
  'computer-preview': COMPUTER,
  // Without an environment, no one knows who runs them.
  shell: describedByVendor(
    object(
      {
        ...freeFields('type', 'allowed_callers'),
        environment: refersTo(CONTAINER, SHELL_ENVIRONMENT),
      },
      'environment',
    ),
  ),
  tool_search: object(
    { ...freeFields('type', 'description', 'parameters'), execution: only('client') },
    'execution',
  ),
  web_search: WEB_SEARCH,
  web_search_2025_08_26: WEB_SEARCH,
  web_search_preview: WEB_SEARCH,
  web_search_preview_2025_03_11: WEB_SEARCH,
  x_search: X_SEARCH,
  code_interpreter: refersTo(
    CODE_CONTAINER,
    sizedTool('code_interpreter', 'container', 'max_tool_calls', CODE_INTERPRETER),
  ),
  // What it searches is stored at the vendor.
  file_search: refersTo({ vector_store_ids: outsideIds() }, serverTool('file_search')),
  image_generation: IMAGE_GENERATION,
  mcp: serverTool('mcp'),
  programmatic_tool_calling: serverTool('programmatic_tool_calling'),
});
