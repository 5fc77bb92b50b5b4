import type { ToolChoice } from '../ir/request.ts';
import { type Fields, fieldsOf } from '../loss/fields.ts';

/** OpenAI's choice among some of the tools. */
export interface AllowedTools {
  readonly mode?: string;
  readonly tools?: unknown[];
}

export interface AllowedTool {
  readonly type?: string;
  readonly name?: string;
  readonly function?: unknown;
  readonly custom?: unknown;
}

/** Reads OpenAI's choice among some of the tools, whose names are where `nameOf` finds them. */
export function readAllowed(
  wire: Fields<AllowedTools>,
  path: string,
  nameOf: (tool: Fields<AllowedTool>) => string | undefined,
): ToolChoice | undefined {
  const mode = wire.need('mode', wire.word('mode', ['auto', 'required'] as const));
  const tools = wire.need('tools', wire.list('tools')) ?? [];
  const allowed = tools.flatMap((value, index) => {
    const tool = fieldsOf<AllowedTool>(value, `${wire.at('tools')}.${index}`, wire.context);
    const name = tool && nameOf(tool);
    tool?.end();
    return name ?? [];
  });
  wire.end();
  return mode && { path, mode: mode === 'required' ? 'any' : 'auto', name: '', allowed };
}
