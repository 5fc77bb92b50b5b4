import { NO_TOOL_USES, type ToolUses } from '@weighbridge/domain';
import { isRecord, type JsonRecord } from './jsonFields.ts';

/** Tools that OpenAI and xAI run, by the type of their output items (https://platform.openai.com/docs/guides/tools). */
const TOOL_OF_ITEM: ReadonlyMap<unknown, string> = new Map([
  ['web_search_call', 'web_search'],
  ['x_search_call', 'x_search'],
  ['file_search_call', 'file_search'],
  ['code_interpreter_call', 'code_interpreter'],
  ['image_generation_call', 'image_generation'],
  ['shell_call', 'shell'],
]);
/** They are billed by the containers that they run in. */
const IN_CONTAINERS: ReadonlySet<string> = new Set(['code_interpreter', 'shell']);

export function isToolItem({ type }: JsonRecord): boolean {
  return TOOL_OF_ITEM.has(type);
}

/** Counts the uses of tools in output items: a web search by each search, code by each container that it ran in. */
export class ToolItemCounter {
  readonly #uses: Record<string, number> = {};
  readonly #containers = new Set<string>();

  /** To be called with an item that is complete. */
  add(item: JsonRecord): void {
    const tool = TOOL_OF_ITEM.get(item.type);
    if (tool === undefined || isFreeAction(item.action)) return;
    if (IN_CONTAINERS.has(tool)) this.#addContainer(tool, item);
    else this.count(tool);
  }

  /** To be called with an item that begins: a container is billed from its start. */
  begin(item: JsonRecord): void {
    const tool = TOOL_OF_ITEM.get(item.type);
    if (tool !== undefined && IN_CONTAINERS.has(tool) && containerOf(item)) this.#addContainer(tool, item);
  }

  #addContainer(tool: string, item: JsonRecord): void {
    const container = containerOf(item);
    // A shell of the client's.
    if (container === undefined) return;
    if (item.type === 'shell_call' && container === '') tool = UNPLACED_SHELL;
    const name = `${tool} ${container}`;
    if (this.#containers.has(name)) return;
    if (this.#containers.size < MAX_CONTAINERS) this.#containers.add(name);
    this.count(tool);
  }

  /** To be called with a tool that Groq ran, as often as it reports it: `place` says which one it is, if it has an index. */
  addExecuted(type: unknown, place: string): void {
    const tool = executedTool(type);
    const name = `${tool} ${place}`;
    if (!place.endsWith(' undefined')) {
      if (this.#containers.has(name)) return;
      if (this.#containers.size < MAX_CONTAINERS) this.#containers.add(name);
    }
    this.count(tool);
  }

  count(tool: string): void {
    this.#uses[tool] = (this.#uses[tool] ?? 0) + 1;
  }

  get uses(): ToolUses {
    return this.#uses;
  }
}

const MAX_CONTAINERS = 1_024;

/** What Groq names differently in its answers than in requests and prices. */
const EXECUTED: ReadonlyMap<unknown, string> = new Map([
  ['search', 'web_search'],
  ['python', 'code_execution'],
  ['visit', 'visit_website'],
]);

/** By its name in prices. The parts of a browser search are `browser.search`, `browser.open` and `browser.find`. */
function executedTool(type: unknown): string {
  const known = EXECUTED.get(type);
  if (known !== undefined) return known;
  if (typeof type !== 'string' || !TOOL_NAME.test(type)) return 'server_side_tool';
  return type.startsWith('browser.') ? 'browser_search' : type;
}

/** A call of a shell that does not say where it runs: the request does. */
export const UNPLACED_SHELL = 'shell_call';

/** Where an item ran; empty if it does not say, undefined if that was at the client. */
function containerOf({ type, container_id: id, environment }: JsonRecord): string | undefined {
  if (type !== 'shell_call') return typeof id === 'string' ? id : '';
  if (!isRecord(environment)) return '';
  if (environment.type === 'local') return undefined;
  return typeof environment.container_id === 'string' ? environment.container_id : '';
}

/** A web search call that opens a page, or looks for a text in it, searches nothing. */
function isFreeAction(action: unknown): boolean {
  return isRecord(action) && (action.type === 'open_page' || action.type === 'find_in_page');
}

/** Members of a usage object that count uses of one tool, by vendor. */
const COUNTS: readonly (readonly [name: string, tool: string])[] = [
  // Perplexity.
  ['num_search_queries', 'web_search'],
  ['search_queries', 'web_search'],
  // xAI's live search bills by source.
  ['num_sources_used', 'live_search'],
];

/** The uses of tools that a usage object reports. */
export function usesInUsage(usage: unknown): ToolUses {
  if (!isRecord(usage)) return NO_TOOL_USES;
  const uses: Record<string, number> = {};
  for (const [name, tool] of COUNTS) raise(uses, tool, usage[name]);
  // Anthropic and OpenRouter: `web_search_requests`.
  if (isRecord(usage.server_tool_use)) {
    for (const [name, count] of membersOf(usage.server_tool_use)) {
      if (name.endsWith('_requests')) raise(uses, name.slice(0, -'_requests'.length), count);
    }
  }
  addXai(uses, usage);
  return orNone(uses);
}

/** xAI: uses by tool as `web_search_calls`, and their sum. */
function addXai(uses: Record<string, number>, usage: JsonRecord): void {
  const { server_side_tool_usage_details: details, num_server_side_tools_used: all } = usage;
  let known = 0;
  if (isRecord(details)) {
    for (const [name, count] of membersOf(details)) {
      if (!name.endsWith('_calls')) continue;
      raise(uses, name.slice(0, -'_calls'.length), count);
      known += countOf(count);
    }
  }
  raise(uses, 'server_side_tool', countOf(all) - known);
}

/** The `tool_usage` of a response: uses by tool. Tools that are billed by token have no `num_requests`. */
export function usesInToolUsage(toolUsage: unknown): ToolUses {
  if (!isRecord(toolUsage)) return NO_TOOL_USES;
  const uses: Record<string, number> = {};
  for (const [tool, reported] of membersOf(toolUsage)) {
    if (isRecord(reported)) raise(uses, tool, reported.num_requests);
  }
  return orNone(uses);
}

/** What two places report of the same uses: the larger count of each tool. */
export function mostUses(one: ToolUses, other: ToolUses): ToolUses {
  const uses = { ...one };
  for (const [tool, count] of Object.entries(other)) raise(uses, tool, count);
  return orNone(uses);
}

const MAX_TOOLS = 64;
const TOOL_NAME = /^[a-z0-9_.-]{1,40}$/;

function membersOf(object: JsonRecord): [string, unknown][] {
  return Object.entries(object)
    .slice(0, MAX_TOOLS)
    .filter(([name]) => TOOL_NAME.test(name));
}

function raise(uses: Record<string, number>, tool: string, count: unknown): void {
  const reported = countOf(count);
  if (reported > (uses[tool] ?? 0)) uses[tool] = reported;
}

/** No response uses a tool more often. */
const MAX_USES = 1_000_000;

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? Math.min(value, MAX_USES) : 0;
}

function orNone(uses: ToolUses): ToolUses {
  for (const _ in uses) return uses;
  return NO_TOOL_USES;
}
