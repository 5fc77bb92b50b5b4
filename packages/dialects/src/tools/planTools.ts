import {
  type CacheMark,
  type HostedService,
  type JsonText,
  type ModelRequest,
  markPath,
  type Part,
  type StructuredOutput,
  type Tool,
  type ToolChoice,
} from '../ir/request.ts';
import type { Losses } from '../loss/losses.ts';
import { lowerSchema } from '../schema/lowerSchema.ts';
import { qualifiesForStrict } from '../schema/strictSchema.ts';
import { toolName } from '../wire/ids.ts';
import type { WriteContext } from '../writeContext.ts';
import type { ToolChanges } from './answerTools.ts';
import { FREEFORM_SCHEMA, freeformDescription } from './freeform.ts';

const EMPTY_SCHEMA = '{"type":"object","properties":{}}' as JsonText;
const ANY_OBJECT = '{"type":"object","additionalProperties":true}' as JsonText;
const OUTPUT_TOOL = 'structured_output';

interface PlannedFunction {
  readonly kind: 'function';
  /** As the vendor gets it. */
  readonly name: string;
  readonly description: string | undefined;
  readonly schema: JsonText;
  readonly strict: boolean | undefined;
  readonly cache: CacheMark | undefined;
  readonly path: string;
}

interface PlannedFreeform {
  readonly kind: 'freeform';
  readonly name: string;
  readonly description: string | undefined;
  readonly syntax: string | undefined;
  readonly grammar: string | undefined;
}

interface PlannedHosted {
  readonly kind: 'hosted';
  readonly service: HostedService;
}

type PlannedTool = PlannedFunction | PlannedFreeform | PlannedHosted;

/** What a target gets of a request's tools. */
export interface ToolPlan {
  readonly tools: readonly PlannedTool[];
  /** The name in it is the vendor's. */
  readonly choice: Omit<ToolChoice, 'path'> | undefined;
  readonly changes: ToolChanges;
}

/** Fits a request's tools to what a target takes. */
export function planTools(request: ModelRequest, context: WriteContext): ToolPlan {
  const names = new Map<string, string>();
  const freeform = new Set<string>();
  const loaded = request.tools.some(isDeferred) ? loadedTools(request) : NO_NAMES;
  const tools: PlannedTool[] = [];
  for (const tool of request.tools) {
    const planned = planTool(tool, loaded, context);
    if (!planned) continue;
    tools.push(planned);
    if (planned.kind === 'hosted') continue;
    if (planned.name !== tool.name) names.set(planned.name, tool.name);
    if (tool.kind === 'freeform' && planned.kind === 'function') freeform.add(planned.name);
  }
  const choice = planChoice(request, tools, context);
  leaveAllowed(tools, choice, request, context);
  const outputTool = planOutput(request, tools, choice, context);
  return {
    tools,
    choice: outputTool === '' ? choice : outputChoice(outputTool, tools, choice),
    changes: { names, freeform, outputTool, isOneCall: planOneCall(request, tools, context) },
  };
}

const NO_NAMES: ReadonlySet<string> = new Set();

function isDeferred(tool: Tool): boolean {
  return tool.kind === 'function' && tool.deferred === true;
}

function planTool(tool: Tool, loaded: ReadonlySet<string>, context: WriteContext): PlannedTool | undefined {
  const { quirks, losses } = context;
  if (tool.kind === 'hosted') {
    if (quirks.hosted.includes(tool.service)) {
      losses.add(tool.path, 'changed', "a tool of the vendor's own stands for it, with its own settings");
      return { kind: 'hosted', service: tool.service };
    }
    losses.add(tool.path, 'dropped', `the model's vendor does not run ${tool.name}`);
    return undefined;
  }
  const name = toolName(tool.name);
  if (tool.kind === 'freeform') {
    const { syntax, grammar, description, path } = tool;
    if (quirks.freeformTools) return { kind: 'freeform', name, description, syntax, grammar };
    losses.add(path, 'changed', 'a function with one string stands for the freeform tool');
    return {
      kind: 'function',
      name,
      description: freeformDescription(tool),
      schema: FREEFORM_SCHEMA,
      strict: undefined,
      cache: undefined,
      path,
    };
  }
  if (tool.deferred && !loaded.has(tool.name)) {
    losses.add(tool.path, 'changed', 'a deferred tool is sent once a result refers to it');
    return undefined;
  }
  if (tool.deferred)
    losses.add(`${tool.path}.defer_loading`, 'changed', 'a result refers to it, so it is sent');
  const schema = tool.schema ?? EMPTY_SCHEMA;
  if (tool.cache && !quirks.cacheMarks)
    losses.add(markPath(tool), 'dropped', 'prefixes are cached without marks there');
  return {
    kind: 'function',
    name,
    description: tool.description,
    schema: quirks.schemas === 'subset' ? lowerSchema(schema, tool.path, losses) : schema,
    strict: strictOf(tool.strict, schema, tool.path, context),
    cache: quirks.cacheMarks ? tool.cache : undefined,
    path: tool.path,
  };
}

function strictOf(
  strict: boolean | undefined,
  schema: JsonText,
  path: string,
  { quirks, losses }: WriteContext,
): boolean | undefined {
  if (strict !== true) return strict;
  if (quirks.strictTools && qualifiesForStrict(schema)) return true;
  const reason = quirks.strictTools
    ? 'the schema does not qualify for it'
    : 'the model does not enforce schemas';
  losses.add(`${path}.strict`, 'changed', reason);
  return false;
}

/** Whether only the first call of an answer reaches the caller, since the vendor can't be told to make one. */
function planOneCall(
  { parallelCalls }: ModelRequest,
  tools: readonly PlannedTool[],
  { quirks, losses }: WriteContext,
): boolean {
  const hasTools = tools.some(({ kind }) => kind !== 'hosted');
  if (!parallelCalls || parallelCalls.value || quirks.parallelChoice || !hasTools) return false;
  losses.add(parallelCalls.path, 'changed', 'of several calls at once, only the first is passed on');
  return true;
}

/** The deferred tools that results refer to. */
function loadedTools({ messages }: ModelRequest): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (part: Part): void => {
    if (part.kind === 'reference') names.add(part.name);
    else if (part.kind === 'result') part.parts.forEach(visit);
  };
  for (const { parts } of messages) parts.forEach(visit);
  return names;
}

function planChoice(
  { tools: asked, toolChoice: choice }: ModelRequest,
  tools: readonly PlannedTool[],
  { losses }: WriteContext,
): Omit<ToolChoice, 'path'> | undefined {
  if (!choice) return undefined;
  const isForced = choice.mode === 'any' || choice.mode === 'one';
  if (choice.mode !== 'one') {
    if (tools.length > 0) return { mode: choice.mode, name: '', allowed: planAllowed(choice, tools, losses) };
    if (isForced) losses.add(choice.path, 'refused', 'no tool is left that the model could call');
    return undefined;
  }
  const index = asked.findIndex(({ name }) => name === choice.name);
  const tool = asked[index];
  const name = tool?.kind === 'hosted' ? '' : toolName(choice.name);
  const isThere = name !== '' && tools.some((one) => one.kind !== 'hosted' && one.name === name);
  if (isThere) return { mode: 'one', name };
  losses.add(choice.path, 'refused', `the model has no tool ${choice.name}`);
  return undefined;
}

/** The vendor's names of the only functions that may be called; undefined if these are all. */
function planAllowed(
  { path, allowed }: ToolChoice,
  tools: readonly PlannedTool[],
  losses: Losses,
): readonly string[] | undefined {
  if (!allowed) return undefined;
  const named = new Set(allowed.map(toolName));
  const own = tools.flatMap((tool) => (tool.kind === 'hosted' ? [] : tool.name));
  for (const name of named)
    if (!own.includes(name)) losses.add(path, 'refused', `the model has no tool ${name}`);
  return own.every((name) => named.has(name)) ? undefined : [...named];
}

/** Where a target can't be told which functions may be called, it gets no others. */
function leaveAllowed(
  tools: PlannedTool[],
  choice: ToolPlan['choice'],
  { toolChoice }: ModelRequest,
  { format, losses }: WriteContext,
): void {
  const { allowed, mode } = choice ?? {};
  if (!allowed || !toolChoice || format === 'responses' || (format === 'gemini' && mode === 'any')) return;
  losses.add(toolChoice.path, 'changed', 'only the tools that may be called are sent');
  const left = tools.filter((tool) => tool.kind === 'hosted' || allowed.includes(tool.name));
  tools.splice(0, tools.length, ...left);
}

/** The model has to call the tool that stands for its output, or another one before. */
function outputChoice(
  name: string,
  tools: readonly PlannedTool[],
  choice: ToolPlan['choice'],
): ToolPlan['choice'] {
  const isAlone = tools.length === 1 || choice?.mode === 'none';
  return isAlone ? { mode: 'one', name } : { mode: 'any', name: '' };
}

/** Whether the target writes a structured output by itself; else a tool stands for it. */
export function writesOutput({ schema }: StructuredOutput, { format, quirks }: WriteContext): boolean {
  if (!quirks.structuredOutput) return false;
  // Messages take closed schemas only, and a tool takes any.
  return format !== 'messages' || (schema !== undefined && qualifiesForStrict(schema));
}

/** Adds a tool whose arguments are the structured output, where the target has no other way; returns its name. */
function planOutput(
  { output }: ModelRequest,
  tools: PlannedTool[],
  choice: ToolPlan['choice'],
  context: WriteContext,
): string {
  const { losses } = context;
  if (!output || writesOutput(output, context)) return '';
  if (choice?.mode === 'any' || choice?.mode === 'one') {
    losses.add(output.path, 'refused', 'the model can either call a tool or write structured output');
    return '';
  }
  const name = tools.some((tool) => tool.kind !== 'hosted' && tool.name === OUTPUT_TOOL)
    ? `${OUTPUT_TOOL}_`
    : OUTPUT_TOOL;
  losses.add(output.path, 'changed', 'a tool stands for the structured output');
  tools.push({
    kind: 'function',
    name,
    description: output.description ?? 'Write the answer as the arguments of this tool.',
    schema: output.schema ?? ANY_OBJECT,
    strict: undefined,
    cache: undefined,
    path: output.path,
  });
  return name;
}
