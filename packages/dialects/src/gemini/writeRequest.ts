import { withPairedCalls } from '../conversation/history.ts';
import { splitInstructions } from '../conversation/instructions.ts';
import { type HostedService, type ModelRequest, markPath } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { planReasoning, type ReasoningPlan } from '../quirks/reasoning.ts';
import { planSampling } from '../quirks/sampling.ts';
import { planTokens } from '../quirks/tokens.ts';
import { lowerSchema } from '../schema/lowerSchema.ts';
import { planTools, type ToolPlan } from '../tools/planTools.ts';
import type { WriteContext, WrittenRequest } from '../writeContext.ts';
import type { ConfigWire, GeminiBody, ToolWire } from './wire.ts';
import { writeContents } from './writeContents.ts';

/** Writes a body of Gemini's `generateContent`. The model, and whether it streams, are in its path. */
export function writeGeminiRequest(request: ModelRequest, context: WriteContext): WrittenRequest {
  const { losses } = context;
  const { system, messages: turns } = splitInstructions(request, context);
  const messages = withPairedCalls(turns, losses);
  for (const part of system) {
    if (part.cache) losses.add(markPath(part), 'dropped', 'prefixes are cached without marks there');
  }
  const plan = planTools(request, context);
  for (const setting of [request.user, request.cacheKey, request.verbosity]) {
    if (setting) losses.add(setting.path, 'dropped', 'the model does not take it');
  }
  const { parallelCalls } = request;
  if (parallelCalls && plan.tools.length === 0)
    losses.add(parallelCalls.path, 'dropped', 'there are no tools');
  const body = present<GeminiBody>({
    systemInstruction: system.length > 0 ? { parts: system.map(({ text }) => ({ text })) } : undefined,
    contents: writeContents(messages, context),
    tools: plan.tools.length > 0 ? writeTools(plan, context) : undefined,
    toolConfig: writeChoice(plan) as GeminiBody['toolConfig'],
    generationConfig: writeConfig(request, context),
  } as GeminiBody);
  return { body, changes: plan.changes };
}

const HOSTED: Readonly<Partial<Record<HostedService, string>>> = {
  web_search: 'googleSearch',
  web_fetch: 'urlContext',
  code: 'codeExecution',
  maps: 'googleMaps',
};

function writeTools({ tools }: ToolPlan, { quirks, losses }: WriteContext): ToolWire[] | undefined {
  const declarations = tools.flatMap((tool) => {
    if (tool.kind !== 'function') return [];
    const { name, description, schema } = tool;
    const parameters = raw<object>(schema);
    return [
      quirks.schemas === 'subset'
        ? present({ name, description, parameters })
        : present({ name, description, parametersJsonSchema: parameters }),
    ];
  });
  const written: object[] = declarations.length > 0 ? [{ functionDeclarations: declarations }] : [];
  for (const tool of tools) {
    const member = tool.kind === 'hosted' ? HOSTED[tool.service] : undefined;
    if (member === undefined) continue;
    if (declarations.length > 0)
      losses.add('tools', 'dropped', `the model has no ${member} beside functions`);
    else written.push({ [member]: {} });
  }
  return written as ToolWire[];
}

const MODES = { auto: 'AUTO', none: 'NONE', any: 'ANY', one: 'ANY' } as const;

function writeChoice({ choice, tools }: ToolPlan): object | undefined {
  if (!choice || !tools.some(({ kind }) => kind === 'function')) return undefined;
  const mode = MODES[choice.mode];
  const allowedFunctionNames =
    choice.mode === 'one' ? [choice.name] : choice.mode === 'any' ? choice.allowed : undefined;
  return { functionCallingConfig: present({ mode, allowedFunctionNames }) };
}

function writeConfig(request: ModelRequest, context: WriteContext): ConfigWire | undefined {
  const { quirks, losses } = context;
  const sampling = planSampling(request.sampling, context, { maxTemperature: 2, isReasoning: false });
  const reasoning = planReasoning(request.reasoning, quirks, losses);
  return present<ConfigWire>({
    maxOutputTokens: planTokens(request, context),
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    seed: sampling.seed,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    stopSequences: sampling.stop as string[] | undefined,
    thinkingConfig: reasoning && (writeThinking(reasoning) as ConfigWire['thinkingConfig']),
    ...writeOutput(request, context),
  } as ConfigWire);
}

function writeThinking({ isOff, effort, budget, isShown }: ReasoningPlan): object {
  const includeThoughts = isShown ? true : undefined;
  if (isOff) return { thinkingBudget: 0 };
  if (effort !== undefined) return present({ thinkingLevel: effort.toUpperCase(), includeThoughts });
  return present({ thinkingBudget: budget ?? -1, includeThoughts });
}

function writeOutput({ output }: ModelRequest, { quirks, losses }: WriteContext): object {
  if (!output || !quirks.structuredOutput) return {};
  const { schema, strict, path, name, description } = output;
  if (strict === false) losses.add(path, 'changed', 'the schema is enforced');
  if (name !== undefined || description !== undefined) {
    losses.add(path, 'dropped', 'the schema has no name or description there');
  }
  const responseMimeType = 'application/json';
  if (!schema) return { responseMimeType };
  if (quirks.schemas === 'json-schema') return { responseMimeType, responseJsonSchema: raw(schema) };
  return { responseMimeType, responseSchema: raw(lowerSchema(schema, path, losses)) };
}
