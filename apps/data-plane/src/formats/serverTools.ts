import type { ToolUses } from '@weighbridge/domain';
import type { GenerationRequest } from './generationRequest.ts';
import { walkRequest } from './requestWalker.ts';

/**
 * How often the vendor's tools are expected to be used: as often as the request allows, or once. Undefined if none of the
 * given tools is in the request. Only a request that has one of their names is looked through.
 */
export function expectedToolUses(
  { operation, body, spans }: GenerationRequest,
  tools: readonly string[],
): ToolUses | undefined {
  const span = spans.get('tools');
  if (!span || tools.length === 0) return undefined;
  return body.read((bytes) => {
    const sent = bytes.subarray(span.start, span.end);
    if (!tools.some((tool) => isNamed(sent, tool))) return undefined;
    const { toolUses, removedTools } = walkRequest(bytes, operation.requestFields, {
      allows: () => false,
      refuse: undefined,
      maxToolCalls: undefined,
    });
    const uses: Record<string, number> = { ...toolUses };
    for (const { tool } of removedTools) uses[tool] = (uses[tool] ?? 0) + 1;
    return uses;
  });
}

/** Under its name in prices, or that name as Gemini's clients write it: `googleSearch`. */
function isNamed(tools: Buffer, tool: string): boolean {
  return tools.includes(`"${tool}`) || tools.includes(`"${inCamelCase(tool)}`);
}

function inCamelCase(name: string): string {
  return name.replaceAll(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}
