import type { TargetFormat } from '../format.ts';
import type { Message, ModelRequest, Part, Tool } from '../ir/request.ts';

const MARK = {};

/**
 * A request with marks on its system prompt, its tools and the last turn of the user: what the next turn of the conversation
 * begins with. Vendors take four marks at most, so a request with any of its own gets none.
 */
export function withCacheMarks(request: ModelRequest, format: TargetFormat): ModelRequest {
  const { system, messages, tools } = request;
  if (hasMark(request)) return request;
  const turn = messages.findLastIndex(({ role }) => role === 'user');
  const first = messages.findIndex(({ role }) => role !== 'instruction');
  const marked = messages.map((message, at) => {
    // Instructions before the conversation are part of the system prompt.
    const isMarked = at === turn || at === first - 1;
    return isMarked ? { ...message, parts: markLast(message.parts, takesMark) } : message;
  });
  return {
    ...request,
    system: first > 0 ? system : markLast(system, takesMark),
    messages: marked,
    // Converse has no marks on tools.
    tools: format === 'messages' ? markLast(tools, isFunction) : tools,
  };
}

function hasMark({ system, messages, tools }: ModelRequest): boolean {
  return (
    system.some(isMarked) ||
    messages.some(({ parts }: Message) => parts.some(isMarked)) ||
    tools.some((tool) => tool.kind === 'function' && tool.cache !== undefined)
  );
}

function isMarked(part: Part): boolean {
  return part.cache !== undefined || (part.kind === 'result' && part.parts.some(isMarked));
}

/** Empty texts are not sent. */
function takesMark(part: Part): boolean {
  return part.kind !== 'reasoning' && !('text' in part && part.text.trim() === '');
}

function isFunction(tool: Tool): boolean {
  return tool.kind === 'function' && tool.deferred !== true;
}

function markLast<One extends Part | Tool>(
  list: readonly One[],
  takes: (one: One) => boolean,
): readonly One[] {
  const last = list.findLastIndex(takes);
  return list.map((one, at) => (at === last ? { ...one, cache: MARK } : one));
}
