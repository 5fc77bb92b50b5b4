import type { GenerationRequest } from '../formats/generationRequest.ts';
import { isRecord } from '../formats/jsonFields.ts';
import type { CanonicalMember } from './canonicalJson.ts';

/**
 * Fields that bring in what the request does not hold, such as a conversation, a container or the web, or that make the
 * vendor do more than answer. What they come to is not told by the request.
 */
const BEYOND_THE_REQUEST = new Set([
  'audio',
  'background',
  'cached_content',
  'container',
  'conversation',
  'mcp_servers',
  'plugins',
  'previous_response_id',
  'prompt',
  'search_parameters',
  'web_search_options',
]);
/** Tools that the caller runs itself; what the vendor runs, it runs each time. */
const CALLERS_TOOLS = new Set<unknown>([undefined, null, 'function', 'custom']);
const NOT_SAID = new Set(['null', 'false']);

/** Whether an answer is made of nothing but the request, and leaves nothing behind at the vendor. */
export function isCacheable(generation: GenerationRequest, members: readonly CanonicalMember[]): boolean {
  if (generation.isStored) return false;
  return members.every(({ name, value }) => {
    // It may spell any of the names below, and nobody writes one so.
    if (name.includes('\\')) return false;
    if (name === 'tools') return areCallersTools(value);
    // A vendor keeps what it was asked to, on any of its routes.
    if (name === 'store') return value.toString('latin1') !== 'true';
    return !BEYOND_THE_REQUEST.has(name) || NOT_SAID.has(value.toString('latin1', 0, 5));
  });
}

function areCallersTools(value: Buffer): boolean {
  const tools: unknown = JSON.parse(value.toString('utf8'));
  if (!Array.isArray(tools)) return tools === null;
  return tools.every((tool) => isRecord(tool) && CALLERS_TOOLS.has(tool.type));
}
