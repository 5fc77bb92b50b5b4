import {
  inContainerOf,
  largestContainerGb,
  SIZED_TOOLS,
  type ToolUses,
  toolOfSized,
} from '@weighbridge/domain';
import { hasEscapedLetter } from './decodedMembers.ts';
import type { GenerationRequest } from './generationRequest.ts';
import type { RequestFindings, WalkRules } from './requestFindings.ts';
import { walkRequest } from './requestWalker.ts';

/** Nothing is refused: what a request may cost is only looked for. */
const LOOKS: WalkRules = {
  allows: () => false,
  refuse: undefined,
  isBounded: false,
  maxToolCalls: undefined,
};

/** The same, before the request is sent. */
export const ADMITS: WalkRules = { ...LOOKS, findsTools: true };

/** The tools of a request that its vendor would run. */
export type ServerTools = Pick<RequestFindings, 'serverTools' | 'freeTools'>;

/** Looks through the whole body, by the table of its operation. */
export function serverToolsOf({ operation, body, containerGb = 0 }: GenerationRequest): ServerTools {
  const { serverTools, freeTools } = body.readJoined((bytes) =>
    walkRequest(bytes, operation.requestFields, LOOKS),
  );
  return {
    serverTools: new Set([...serverTools].map((name) => inContainerOf(name, containerGb))),
    freeTools,
  };
}

/** Uses in the containers that they may run in: one that the vendor reuses may be larger than the one that is asked for. */
export function inReusedContainers(uses: ToolUses, { containerGb = 0 }: GenerationRequest): ToolUses {
  if (containerGb === 0) return uses;
  const reused: Record<string, number> = {};
  for (const [name, count] of Object.entries(uses)) {
    const larger = inContainerOf(name, containerGb);
    reused[larger] = (reused[larger] ?? 0) + count;
  }
  return reused;
}

/** The memory of the largest container that a request may leave to a later one; 0: none, or of 1 GB. */
export function reusableContainerGb(generation: GenerationRequest): number {
  const uses = expectedToolUses(generation, [...SIZED_TOOLS]);
  return Math.max(generation.containerGb ?? 0, uses ? largestContainerGb(Object.keys(uses)) : 0);
}

const MAX_SEARCHED_BYTES = 256 * 1024;

/**
 * How often the vendor's tools are expected to be used: as often as the request allows, or once. Undefined if none of the
 * given tools is in the request. Only a request that may have one of their names is looked through.
 */
export function expectedToolUses(
  generation: GenerationRequest,
  tools: readonly string[],
  rules = LOOKS,
): ToolUses | undefined {
  const { operation, body, spans } = generation;
  const span = spans.get('tools');
  if (tools.length === 0) return undefined;
  return body.read((bytes) => {
    // Items of the input may have tools as well.
    const isWhole = operation.namesObjects && (bytes.includes(MORE_TOOLS) || hasEscapedLetter(bytes));
    if (!span && !isWhole) return undefined;
    const sent = span && !isWhole ? bytes.subarray(span.start, span.end) : bytes;
    // Looking for each of many names would take longer than going over larger ones once.
    const isShort = sent.length <= MAX_SEARCHED_BYTES;
    if (isShort && !tools.some((tool) => isNamed(sent, tool)) && !hasEscapedLetter(sent)) return undefined;
    const { toolUses, serverTools } = walkRequest(bytes, operation.requestFields, rules);
    if (serverTools.size === 0) return undefined;
    const uses: Record<string, number> = { ...toolUses };
    for (const tool of serverTools) uses[tool] ??= 1;
    return inReusedContainers(uses, generation);
  });
}

const MORE_TOOLS = '"additional_tools"';

/** Under its name in prices, or that name as Gemini's clients write it: `googleSearch`. */
function isNamed(tools: Buffer, tool: string): boolean {
  // A sized name is no tool's.
  if (toolOfSized(tool) !== undefined) return false;
  return tools.includes(`"${tool}`) || tools.includes(`"${inCamelCase(tool)}`);
}

function inCamelCase(name: string): string {
  return name.replaceAll(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
