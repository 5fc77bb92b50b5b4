import { AppError } from '@weighbridge/errors';
import { MAX_CHOICES, scanFields } from './generationRequest.ts';
import type { Operation } from './operation.ts';

/** Fields that refer to content outside the request, or change the price. */
const REFUSED_FIELDS = [
  'previous_response_id',
  'conversation',
  'prompt',
  'background',
  'web_search_options',
  'mcp_servers',
  'container',
  'prediction',
  'audio',
  'speed',
  'inference_geo',
  'best_of',
  'models',
  'plugins',
  'search_parameters',
  'cached_content',
  'context_management',
  'extra_body',
] as const;
/** The service tiers that cost no more than the price list. */
const LIST_PRICE_TIERS = new Set<unknown>([
  undefined,
  null,
  'auto',
  'default',
  'standard',
  'standard_only',
  'flex',
]);
/** Tools that the client runs. */
const CLIENT_TOOLS = new Set<unknown>(['function', 'custom']);
const TEXT_PARTS = new Set([
  'text',
  'input_text',
  'output_text',
  'refusal',
  'summary_text',
  'reasoning',
  'reasoning_text',
  'message',
  'tool_use',
  'tool_result',
  'thinking',
  'redacted_thinking',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
]);
const CONTENT_FIELDS = ['messages', 'input', 'system'] as const;
const READ_FIELDS = new Set<string>([
  ...REFUSED_FIELDS,
  ...CONTENT_FIELDS,
  'service_tier',
  'tools',
  'functions',
  'modalities',
  'n',
]);
const MAX_DEPTH = 8;

/**
 * Under a hard budget, the maximum cost must be known from the bytes of the request. Throws a 400 that names the field for
 * which it is not.
 */
export function assertAllowedInHardMode(operation: Operation, body: Buffer): void {
  // Refuses duplicate fields: the vendor may read another one than this service.
  scanFields(body, READ_FIELDS);
  const request = parsed(body);
  for (const field of REFUSED_FIELDS) {
    // A prompt that is text counts as any other text; a stored prompt is an object.
    const value = request[field];
    if (value === undefined || value === null || value === false) continue;
    if (field === 'prompt' && typeof value === 'string') continue;
    throw unboundedCost(field, `the field ${field}`);
  }
  if (!LIST_PRICE_TIERS.has(request.service_tier)) throw unboundedCost('service_tier', 'a tier of service');
  assertClientTools(request.tools);
  if (listOf(request.modalities).some((item) => item !== 'text')) {
    throw unboundedCost('modalities', 'a response that is not text');
  }
  // A vendor may read a number in a form that this service does not.
  for (const field of operation.outputLimits ?? []) assertCount(request, field, Number.MAX_SAFE_INTEGER);
  assertCount(request, 'n', MAX_CHOICES);
  for (const field of CONTENT_FIELDS) assertText(request[field], field, 0);
}

/** Tokens that vendors add to the input of a request with tools: up to 804 at https://docs.anthropic.com. */
const TOOL_PROMPT_TOKENS = 1_024;

/** The maximum number of tokens that a vendor adds to the input. */
export function addedInputTokens(body: Buffer): number {
  const { tools, functions } = parsed(body);
  return listOf(tools).length + listOf(functions).length > 0 ? TOOL_PROMPT_TOKENS : 0;
}

function assertClientTools(tools: unknown): void {
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) {
    throw unboundedCost('tools', 'a tools field that is not a list');
  }
  for (const tool of listOf(tools)) {
    const { type, function: called, input_schema: schema } = isObject(tool) ? tool : {};
    const isClientTool =
      type === undefined || type === null ? isObject(called ?? schema) : CLIENT_TOOLS.has(type);
    if (!isClientTool) throw unboundedCost('tools', `the tool ${excerpt(type ?? tool)}`);
  }
}

function assertCount(request: Record<string, unknown>, field: string, most: number): void {
  const value = request[field];
  if (value === undefined || value === null) return;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= most) return;
  throw unboundedCost(field, `a ${field} that is not a whole number in its range`);
}

function parsed(body: Buffer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  } catch {
    // It is valid JSON, so only its depth can be wrong.
    throw unboundedCost('messages', 'a body nested this deep');
  }
}

/** Content must be text, at any depth, and must not refer to anything stored at the vendor. */
function assertText(value: unknown, field: string, depth: number): void {
  if (value === undefined || value === null || typeof value === 'string' || typeof value === 'number') return;
  if (depth > MAX_DEPTH) throw unboundedCost(field, 'content nested this deep');
  if (!Array.isArray(value)) throw unboundedCost(field, 'content that is neither text nor a list');
  for (const item of value) {
    if (!isObject(item)) {
      assertText(item, field, depth + 1);
      continue;
    }
    assertTextItem(item, field);
    assertText(item.content, field, depth + 1);
    assertText(item.output, field, depth + 1);
  }
}

function assertTextItem(item: Record<string, unknown>, field: string): void {
  const { type, role, audio, encrypted_content: sealed } = item;
  // Without a type, only a message is known to be text: anything else may be an image or a reference.
  const isText =
    type === undefined || type === null ? typeof role === 'string' : TEXT_PARTS.has(String(type));
  if (!isText) throw unboundedCost(field, `content of the type ${excerpt(type ?? Object.keys(item))}`);
  if (audio !== undefined && audio !== null) throw unboundedCost(field, 'audio of an earlier response');
  if (type === 'reasoning' && typeof sealed !== 'string') {
    throw unboundedCost(field, 'reasoning stored at the vendor');
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function excerpt(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 60) ?? 'without a type';
}

function unboundedCost(param: string, what: string): AppError {
  const message = `The cost of ${what} cannot be known in advance, and this key has a hard budget. Remove it, or use a key whose policy has the budget_mode balanced.`;
  return new AppError('invalid_request', 'not_allowed_in_hard_mode', message, { param });
}
