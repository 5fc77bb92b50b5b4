import { AppError } from '@weighbridge/errors';
import { MAX_CHOICES, scanFields } from './generationRequest.ts';
import type { Operation } from './operation.ts';

/** Fields that bring in what this service does not see, or that make a vendor charge by other prices than it knows. */
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
/** The tiers of service that cost no more than the price list says. */
const PLAIN_TIERS = new Set<unknown>([
  undefined,
  null,
  'auto',
  'default',
  'standard',
  'standard_only',
  'flex',
]);
/** Tools that the caller runs itself. */
const CALLERS_TOOLS = new Set<unknown>(['function', 'custom']);
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
 * Under a hard budget nothing may cost more than can be told beforehand from the bytes of the request: refuses what can,
 * by a 400 that names it.
 */
export function assertAllowedInHardMode(operation: Operation, body: Buffer): void {
  // Of a field that stands there twice, the upstream may read another one than this service.
  scanFields(body, READ_FIELDS);
  const request = parsed(body);
  for (const field of REFUSED_FIELDS) {
    // The embedding and completion routes know no stored prompts; a prompt that is text is counted as any other.
    const value = request[field];
    if (value === undefined || value === null || value === false) continue;
    if (field === 'prompt' && typeof value === 'string') continue;
    throw unforeseeable(field, `the field ${field}`);
  }
  if (!PLAIN_TIERS.has(request.service_tier)) throw unforeseeable('service_tier', 'a tier of service');
  requireCallersTools(request.tools);
  if (listOf(request.modalities).some((item) => item !== 'text')) {
    throw unforeseeable('modalities', 'an answer that is not text');
  }
  // A vendor may read a number where this service does not.
  for (const field of operation.outputLimits ?? []) requireCount(request, field, Number.MAX_SAFE_INTEGER);
  requireCount(request, 'n', MAX_CHOICES);
  for (const field of CONTENT_FIELDS) requireText(request[field], field, 0);
}

/** What vendors write into the input by themselves where there are tools: https://docs.anthropic.com names up to 804 tokens. */
const TOOL_PROMPT_TOKENS = 1_024;

/** How many tokens a vendor may add to the input, of which no byte is in the request. */
export function addedInputTokens(body: Buffer): number {
  const { tools, functions } = parsed(body);
  return listOf(tools).length + listOf(functions).length > 0 ? TOOL_PROMPT_TOKENS : 0;
}

function requireCallersTools(tools: unknown): void {
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) {
    throw unforeseeable('tools', 'a field tools that is no list');
  }
  for (const tool of listOf(tools)) {
    const { type, function: called, input_schema: schema } = isObject(tool) ? tool : {};
    const isCallers =
      type === undefined || type === null ? isObject(called ?? schema) : CALLERS_TOOLS.has(type);
    if (!isCallers) throw unforeseeable('tools', `the tool ${shown(type ?? tool)}`);
  }
}

function requireCount(request: Record<string, unknown>, field: string, most: number): void {
  const value = request[field];
  if (value === undefined || value === null) return;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= most) return;
  throw unforeseeable(field, `a field ${field} that is no whole number in its range`);
}

function parsed(body: Buffer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString('utf8')) as Record<string, unknown>;
  } catch {
    // It was scanned before, so what is wrong with it is only its depth.
    throw unforeseeable('messages', 'a body that is nested this deep');
  }
}

/** What a message is made of: text alone, however deep it lies, and nothing that the vendor has elsewhere. */
function requireText(value: unknown, field: string, depth: number): void {
  if (value === undefined || value === null || typeof value === 'string' || typeof value === 'number') return;
  if (depth > MAX_DEPTH) throw unforeseeable(field, 'content that lies this deep');
  if (!Array.isArray(value)) throw unforeseeable(field, 'content that is neither text nor a list');
  for (const item of value) {
    if (!isObject(item)) {
      requireText(item, field, depth + 1);
      continue;
    }
    requireTextItem(item, field);
    requireText(item.content, field, depth + 1);
    requireText(item.output, field, depth + 1);
  }
}

function requireTextItem(item: Record<string, unknown>, field: string): void {
  const { type, role, audio, encrypted_content: sealed } = item;
  // Without a type only a message is known for what it is: a vendor may take anything else for a picture or a reference.
  const isText =
    type === undefined || type === null ? typeof role === 'string' : TEXT_PARTS.has(String(type));
  if (!isText) throw unforeseeable(field, `content of the type ${shown(type ?? Object.keys(item))}`);
  if (audio !== undefined && audio !== null) throw unforeseeable(field, 'audio of an earlier answer');
  if (type === 'reasoning' && typeof sealed !== 'string') {
    throw unforeseeable(field, 'reasoning that the vendor keeps');
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 60) ?? 'without a type';
}

function unforeseeable(param: string, what: string): AppError {
  const message = `What ${what} costs can't be told beforehand, and the budget of this key is a hard one. Leave it out, or ask for a policy whose budget_mode is balanced.`;
  return new AppError('invalid_request', 'not_allowed_in_hard_mode', message, { param });
}
