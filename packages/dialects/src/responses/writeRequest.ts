import type { ResponseTextConfig, Tool as ToolWire } from 'openai/resources/responses/responses';
import { withPairedCalls } from '../conversation/history.ts';
import { type ModelRequest, markPath, type TextPart } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { planReasoning } from '../quirks/reasoning.ts';
import { planSampling } from '../quirks/sampling.ts';
import { planTokens } from '../quirks/tokens.ts';
import { qualifiesForStrict } from '../schema/strictSchema.ts';
import { planTools, type ToolPlan } from '../tools/planTools.ts';
import { hashOf } from '../wire/ids.ts';
import { nameUser, type WriteContext, type WrittenRequest } from '../writeContext.ts';
import type { ResponsesBody } from './wire.ts';
import { writeInput } from './writeInput.ts';

/** Writes a body of OpenAI's responses. The vendor stores nothing, so reasoning comes back encrypted. */
export function writeResponsesRequest(request: ModelRequest, context: WriteContext): WrittenRequest {
  const { quirks, losses } = context;
  const { user, cacheKey, parallelCalls, verbosity } = request;
  const plan = planTools(request, context);
  const reasoning = planReasoning(request.reasoning, quirks, losses);
  const sampling = planSampling(request.sampling, context, { maxTemperature: 2, isReasoning: false });
  nameUser(user, context);
  if (cacheKey && !quirks.cacheKey) losses.add(cacheKey.path, 'dropped', 'the model takes no cache key');
  if (verbosity && !quirks.verbosity) losses.add(verbosity.path, 'dropped', 'the model does not take it');
  if (parallelCalls && plan.tools.length === 0)
    losses.add(parallelCalls.path, 'dropped', 'there are no tools');
  const { stop } = request.sampling;
  if (stop && stop.value.length > 0) losses.add(stop.path, 'refused', 'responses have no stop sequences');
  const isReasoner = quirks.efforts.length > 0;
  const body = present<ResponsesBody>({
    model: context.model,
    instructions: writeInstructions(request.system, context),
    input: writeInput(withPairedCalls(request.messages, losses), context),
    tools: plan.tools.length > 0 ? writeTools(plan) : undefined,
    tool_choice: writeChoice(plan),
    parallel_tool_calls: plan.tools.length > 0 ? parallelCalls?.value : undefined,
    max_output_tokens: planTokens(request, context),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    reasoning:
      reasoning &&
      present({
        effort: reasoning.effort,
        summary: reasoning.isShown ? ('auto' as const) : undefined,
      }),
    text: writeText(request, context),
    safety_identifier: user && quirks.user ? hashOf(user.value) : undefined,
    prompt_cache_key: quirks.cacheKey ? cacheKey?.value : undefined,
    include: isReasoner ? ['reasoning.encrypted_content'] : undefined,
    store: false,
    stream: request.stream,
  } as ResponsesBody);
  return { body, changes: plan.changes };
}

function writeInstructions(system: readonly TextPart[], { losses }: WriteContext): string | undefined {
  for (const part of system) {
    if (part.cache) losses.add(markPath(part), 'dropped', 'prefixes are cached without marks there');
  }
  return system.length > 0 ? system.map(({ text }) => text).join('\n\n') : undefined;
}

function writeTools({ tools }: ToolPlan): ToolWire[] {
  return tools.map((tool): ToolWire => {
    if (tool.kind === 'hosted') return { type: 'web_search' };
    const { name, description } = tool;
    if (tool.kind === 'function') {
      const parameters = raw<Record<string, unknown>>(tool.schema);
      return present({
        type: 'function' as const,
        name,
        description,
        parameters,
        strict: tool.strict ?? false,
      }) as ToolWire;
    }
    const { syntax, grammar } = tool;
    const format =
      grammar === undefined
        ? { type: 'text' }
        : { type: 'grammar', syntax: syntax ?? 'lark', definition: grammar };
    return present({ type: 'custom' as const, name, description, format }) as ToolWire;
  });
}

function writeChoice({ choice, tools }: ToolPlan): ResponsesBody['tool_choice'] {
  if (!choice) return undefined;
  const typeOf = (name: string) =>
    tools.some((tool) => tool.kind === 'freeform' && tool.name === name) ? 'custom' : 'function';
  if (choice.mode === 'one') return { type: typeOf(choice.name), name: choice.name };
  const mode = choice.mode === 'any' ? 'required' : choice.mode;
  if (!choice.allowed || mode === 'none') return mode;
  return { type: 'allowed_tools', mode, tools: choice.allowed.map((name) => ({ type: typeOf(name), name })) };
}

function writeText(
  { output: wanted, verbosity }: ModelRequest,
  { quirks, losses }: WriteContext,
): ResponseTextConfig | undefined {
  const output = quirks.structuredOutput ? wanted : undefined;
  const asked = quirks.verbosity ? verbosity?.value : undefined;
  if (!output && asked === undefined) return undefined;
  const text: { verbosity?: unknown; format?: unknown } = {};
  if (asked !== undefined) text.verbosity = asked;
  if (output && !output.schema) text.format = { type: 'json_object' };
  else if (output?.schema) {
    const { schema, name = 'output', description, strict } = output;
    const isStrict = (strict ?? false) && qualifiesForStrict(schema);
    if (strict && !isStrict)
      losses.add(output.path, 'changed', 'the schema does not qualify for strict mode');
    text.format = { type: 'json_schema', name, description, schema: raw(schema), strict: isStrict };
  }
  return text as ResponseTextConfig;
}
