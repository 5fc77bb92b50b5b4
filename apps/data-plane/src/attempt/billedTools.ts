import { type ToolUses, withSizes } from '@weighbridge/domain';
import type { ServerTools } from '../formats/serverTools.ts';
import { UNPLACED_SHELL } from '../formats/toolUses.ts';

/** The tools that a request has. `undefined`: its bytes are not here any more. */
export type AskedTools = () => ServerTools | undefined;

/**
 * What a vendor bills of the uses that an answer reports: its price depends on what the request says of the tools. Where that
 * is not known, each counts, at the dearest.
 */
export function billedTools(uses: ToolUses, asked: AskedTools): ToolUses {
  if (!dependsOnRequest(uses)) return uses;
  const tools = asked();
  const { [UNPLACED_SHELL]: unplaced = 0, ...billed } = uses as Record<string, number>;
  if (unplaced > 0 && mayBeHosted(tools)) billed.shell = (billed.shell ?? 0) + unplaced;
  for (const tool of tools?.freeTools ?? []) delete billed[tool];
  return withSizes(billed, tools?.serverTools ?? []);
}

const DEPENDENT = ['code_interpreter', 'shell', UNPLACED_SHELL, 'code_execution'];

function dependsOnRequest(uses: ToolUses): boolean {
  for (const tool of DEPENDENT) if (Object.hasOwn(uses, tool)) return true;
  return false;
}

/** A request with a shell of the client's, and none of the vendor's, has no other. */
function mayBeHosted(tools: ServerTools | undefined): boolean {
  if (!tools) return true;
  for (const name of tools.serverTools) if (name.startsWith('shell')) return true;
  return false;
}
