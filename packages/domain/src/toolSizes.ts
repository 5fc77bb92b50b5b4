import type { ToolUses } from './meteredUsage.ts';

/**
 * The sizes of containers that vendors price apart, the cheapest first. The first is what a price without a size is for
 * (https://developers.openai.com/api/docs/pricing).
 */
export const CONTAINER_SIZES = ['1g', '4g', '16g', '64g'] as const;

/** The tools that run in a container of one of these sizes. */
export const SIZED_TOOLS: ReadonlySet<string> = new Set(['code_interpreter', 'shell']);

const OTHER_SIZES: readonly string[] = CONTAINER_SIZES.slice(1);

/** The name of a tool in a container of a size, in prices and usage. What is not a known size is taken for the dearest. */
export function sizedTool(tool: string, size: unknown): string {
  if (size === CONTAINER_SIZES[0]) return tool;
  const known = OTHER_SIZES.find((one) => one === size) ?? CONTAINER_SIZES[CONTAINER_SIZES.length - 1];
  return `${tool}_${known}`;
}

/** The tool of a sized name, such as `shell` of `shell_4g`; undefined if it is none. */
export function toolOfSized(name: string): string | undefined {
  const size = sizeIn(name);
  const tool = size && name.slice(0, -size.length - 1);
  return tool !== undefined && SIZED_TOOLS.has(tool) ? tool : undefined;
}

/** The memory in GB of the largest container that tools with these names run in; 0: they run in none, or in the smallest. */
export function largestContainerGb(names: Iterable<string>): number {
  let most = 0;
  for (const name of names) most = Math.max(most, containerGbOf(name));
  return most;
}

/** The name of the same tool in a container of at least this memory; a tool that runs in none keeps its name. */
export function inContainerOf(name: string, leastGb: number): string {
  const tool = SIZED_TOOLS.has(name) ? name : toolOfSized(name);
  return tool === undefined || containerGbOf(name) >= leastGb ? name : sizedTool(tool, `${leastGb}g`);
}

function sizeIn(name: string): string | undefined {
  return OTHER_SIZES.find((size) => name.endsWith(`_${size}`));
}

function containerGbOf(name: string): number {
  const size = sizeIn(name);
  return size !== undefined && toolOfSized(name) !== undefined ? Number.parseInt(size, 10) : 0;
}

/**
 * Uses with the sizes of their containers, as the request or its echo has them, by `names`. Of several sizes, the dearest
 * counts, and without any: an answer does not say which of them ran, and another request may have made the container.
 */
export function withSizes(uses: ToolUses, names: Iterable<string>): ToolUses {
  if (!hasSized(uses)) return uses;
  const all = [...names];
  const sized: Record<string, number> = {};
  for (const [tool, count] of Object.entries(uses)) {
    const name = SIZED_TOOLS.has(tool) ? dearestSize(tool, all) : tool;
    sized[name] = (sized[name] ?? 0) + count;
  }
  return sized;
}

function hasSized(uses: ToolUses): boolean {
  for (const tool in uses) if (SIZED_TOOLS.has(tool)) return true;
  return false;
}

function dearestSize(tool: string, names: readonly string[]): string {
  const asked = CONTAINER_SIZES.map((size) => sizedTool(tool, size)).filter((name) => names.includes(name));
  return asked.at(-1) ?? sizedTool(tool, undefined);
}
