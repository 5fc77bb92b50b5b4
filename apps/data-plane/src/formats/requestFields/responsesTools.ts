import {
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
const WEB_SEARCH = serverTool('web_search', 'max_tool_calls');
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
export const CODE_CONTAINER = {
  container: kinds({ scalar: storedId, object: object({ file_ids: FILES }) }),
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
  // Elsewhere the vendor runs them, in a container.
  shell: describedByVendor(
    object(
      {
        ...freeFields('type', 'allowed_callers'),
        environment: refersTo(CONTAINER, object({ type: only('local'), skills: free }, 'type')),
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
  x_search: serverTool('x_search', 'max_tool_calls'),
  code_interpreter: refersTo(CODE_CONTAINER, serverTool('code_interpreter', 'max_tool_calls')),
  // What it searches is stored at the vendor.
  file_search: refersTo({ vector_store_ids: outsideIds() }, serverTool('file_search')),
  image_generation: IMAGE_GENERATION,
  mcp: serverTool('mcp'),
  programmatic_tool_calling: serverTool('programmatic_tool_calling'),
});
