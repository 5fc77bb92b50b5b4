import { parseSmall } from '../formats/fieldReader.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { isRecord } from '../formats/jsonFields.ts';
import type { Dialect } from '../formats/operation.ts';
import type { CanonicalMember } from './canonicalJson.ts';

/**
 * Fields that refer to something outside the request, such as a conversation, a container or the web, or that make the
 * vendor do more than answer.
 */
const EXTERNAL_FIELDS = new Set([
  'audio',
  'background',
  'cached_content',
  'cachedContent',
  'container',
  'continuation_token',
  'continuationToken',
  'conversation',
  'mcp_servers',
  'plugins',
  'previous_response_id',
  'search_parameters',
  'web_search_options',
]);
/** Tools that the client runs. A vendor's tools have to run for each request. */
const CLIENT_TOOLS = new Set<unknown>([undefined, null, 'function', 'custom']);
/** What an object of Gemini's tools may have, if the client runs all of them. */
const CLIENT_TOOL_MEMBERS = new Set(['functionDeclarations', 'function_declarations']);
const UNSET = new Set(['null', 'false']);
const OPEN_BRACE = 0x7b;
/** Longer lists of tools are not compared. */
const MAX_TOOLS_BYTES = 256 * 1024;

/** Whether the response depends on the request alone, and leaves nothing at the vendor. */
export function isCacheable(generation: GenerationRequest, members: readonly CanonicalMember[]): boolean {
  if (generation.isStored) return false;
  return members.every(({ name, value }) => {
    // With escapes it may spell any of the names below; no client writes names this way.
    if (name.includes('\\')) return false;
    if (name === 'tools') return areClientTools(value, generation.operation.dialect);
    // Vendors honour it on routes that store nothing by default.
    if (name === 'store') return value.toString('latin1') !== 'true';
    // A prompt that the vendor stores; a completion's own is text.
    if (name === 'prompt') return value[0] !== OPEN_BRACE;
    return !EXTERNAL_FIELDS.has(name) || UNSET.has(value.toString('latin1', 0, 5));
  });
}

function areClientTools(value: Buffer, dialect: Dialect): boolean {
  const tools = parseSmall(value, { start: 0, end: value.length }, MAX_TOOLS_BYTES);
  if (!Array.isArray(tools)) return tools === null;
  return tools.every((tool) => {
    if (!isRecord(tool)) return false;
    if (dialect === 'gemini') return Object.keys(tool).every((name) => CLIENT_TOOL_MEMBERS.has(name));
    return CLIENT_TOOLS.has(tool.type);
  });
}
