import { withPairedCalls } from '../conversation/history.ts';
import { splitInstructions } from '../conversation/instructions.ts';
import { type JsonText, type Message, type ModelRequest, markPath, type TextPart } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { planReasoning } from '../quirks/reasoning.ts';
import { planSampling } from '../quirks/sampling.ts';
import { planTokens } from '../quirks/tokens.ts';
import { planTools, type ToolPlan, writesOutput } from '../tools/planTools.ts';
import { toolName } from '../wire/ids.ts';
import type { WriteContext, WrittenRequest } from '../writeContext.ts';
import type {
  ConverseBlock,
  ConverseBody,
  ConverseMessage,
  InferenceConfig,
  OutputConfig,
  SystemBlock,
  ToolConfig,
  ToolSpec,
} from './wire.ts';
import { CACHE_POINT, cachesAfter, writePart } from './writeContent.ts';

const ANY_OBJECT = '{"type":"object","properties":{}}' as JsonText;

/** Writes a body of Bedrock's Converse. */
export function writeConverseRequest(request: ModelRequest, context: WriteContext): WrittenRequest {
  const { losses } = context;
  const { system: texts, messages: turns } = splitInstructions(request, context);
  const messages = withPairedCalls(turns, losses);
  const plan = planTools(request, context);
  const outputConfig = writeOutputConfig(request, context);
  dropOthers(request, plan, context);
  const system = texts.flatMap((part) => systemBlocks(part, context));
  const body = present<ConverseBody>({
    model: context.model,
    stream: request.stream ? true : undefined,
    maxTokens: planTokens(request, context),
    messages: writeMessages(messages, context),
    system: system.length > 0 ? system : undefined,
    inferenceConfig: writeInference(request, context),
    toolConfig: writeTools(plan, messages, request, context),
    outputConfig,
  });
  return { body, changes: plan.changes };
}

function systemBlocks(part: TextPart, context: WriteContext): SystemBlock[] {
  const isMarked = cachesAfter(part, context);
  if (part.text.trim() === '') return [];
  return isMarked ? [{ text: part.text }, CACHE_POINT] : [{ text: part.text }];
}

function writeMessages(messages: readonly Message[], context: WriteContext): ConverseMessage[] {
  const written: { role: 'user' | 'assistant'; content: ConverseBlock[] }[] = [];
  for (const { role, parts } of messages) {
    const content = parts.flatMap((part) => writePart(part, context));
    if (content.length === 0) continue;
    const last = written.at(-1);
    const wireRole = role === 'assistant' ? 'assistant' : 'user';
    if (last?.role === wireRole) for (const block of content) last.content.push(block);
    else written.push({ role: wireRole, content });
  }
  for (const { content } of written) nameDocuments(content);
  return written;
}

/** Documents need a text beside them. */
function nameDocuments(content: ConverseBlock[]): void {
  const [first] = content.flatMap((block) => ('document' in block ? [block.document] : []));
  if (first && !content.some((block) => 'text' in block)) content.push({ text: first.name });
}

function writeInference(request: ModelRequest, context: WriteContext): InferenceConfig | undefined {
  const sampling = planSampling(request.sampling, context, { maxTemperature: 1, isReasoning: false });
  const { temperature, topP, stop } = sampling;
  if (temperature === undefined && topP === undefined && stop === undefined) return undefined;
  return present<InferenceConfig>({ temperature, topP, stopSequences: stop });
}

function writeOutputConfig(request: ModelRequest, context: WriteContext): OutputConfig | undefined {
  const { losses, quirks } = context;
  const { output } = request;
  const { reasoning } = request;
  const plan = planReasoning(reasoning, quirks, losses);
  const effort = plan?.effort;
  // Where the caller's dialect has it elsewhere than the rest.
  if (reasoning?.effort && !plan && !reasoning.effort.path.startsWith(reasoning.path)) {
    losses.add(reasoning.effort.path, 'dropped', 'the model does not take it');
  }
  const schema = output && writesOutput(output, context) ? output.schema : undefined;
  if (output && quirks.structuredOutput && !schema) {
    losses.add(output.path, 'dropped', 'the model writes JSON by a schema only');
  }
  if (effort === undefined && schema === undefined) return undefined;
  return present<OutputConfig>({
    effort,
    textFormat:
      schema === undefined
        ? undefined
        : {
            type: 'json_schema',
            structure: { jsonSchema: { schema, ...(output?.name && { name: toolName(output.name) }) } },
          },
  });
}

/** What Converse has no words for. */
function dropOthers(
  { verbosity, cacheKey, user, parallelCalls }: ModelRequest,
  { tools }: ToolPlan,
  { losses }: WriteContext,
): void {
  if (verbosity) losses.add(verbosity.path, 'dropped', 'the model does not take it');
  if (cacheKey) losses.add(cacheKey.path, 'dropped', 'the vendor takes no cache key');
  if (user) losses.add(user.path, 'dropped', 'the vendor takes no user');
  if (parallelCalls && tools.length === 0) losses.add(parallelCalls.path, 'dropped', 'there are no tools');
}

function writeTools(
  { tools, choice }: ToolPlan,
  messages: readonly Message[],
  request: ModelRequest,
  { losses }: WriteContext,
): ToolConfig | undefined {
  const specs: ToolSpec[] = tools.flatMap((tool) => {
    if (tool.kind !== 'function') return [];
    if (tool.cache) losses.add(markPath(tool), 'dropped', 'tools take no cache marks there');
    return [
      present<ToolSpec>({
        name: tool.name,
        description: tool.description === '' ? undefined : tool.description,
        inputSchema: { json: raw(tool.schema) },
      }),
    ];
  });
  // A conversation with calls needs their tools, whether or not they may be called again.
  const called = new Map<string, string>();
  for (const { parts } of messages) {
    for (const part of parts) if (part.kind === 'call') called.set(toolName(part.name), part.path);
  }
  const isForbidden = choice?.mode === 'none';
  if (isForbidden && called.size === 0) return undefined;
  if (isForbidden && request.toolChoice) {
    losses.add(
      request.toolChoice.path,
      'changed',
      'calls cannot be forbidden in a conversation that has some',
    );
  }
  for (const [name, path] of called) {
    if (specs.some((spec) => spec.name === name)) continue;
    losses.add(path, 'changed', 'its tool is declared again, without its parameters');
    specs.push({ name, inputSchema: { json: raw(ANY_OBJECT) } });
  }
  if (specs.length === 0) return undefined;
  return present<ToolConfig>({
    tools: specs.map((toolSpec) => ({ toolSpec })),
    toolChoice: choiceOf(choice),
  });
}

function choiceOf(choice: ToolPlan['choice']): ToolConfig['toolChoice'] | undefined {
  switch (choice?.mode) {
    case 'auto':
      return { auto: {} };
    case 'any':
      return { any: {} };
    case 'one':
      return { tool: { name: choice.name } };
    default:
      return undefined;
  }
}
