import type { ChatCompletionTool } from 'openai/resources/chat/completions/completions';
import { withPairedCalls } from '../conversation/history.ts';
import type { ModelRequest } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { planReasoning } from '../quirks/reasoning.ts';
import { planSampling } from '../quirks/sampling.ts';
import { planTokens } from '../quirks/tokens.ts';
import { qualifiesForStrict } from '../schema/strictSchema.ts';
import { planTools, type ToolPlan } from '../tools/planTools.ts';
import { hashOf } from '../wire/ids.ts';
import { nameUser, type WriteContext, type WrittenRequest } from '../writeContext.ts';
import type { ChatBody } from './wire.ts';
import { writeMessages } from './writeMessages.ts';

/** Writes a body of chat completions. Who sends it asks for a stream's usage, of the vendors that report it only then. */
export function writeChatRequest(request: ModelRequest, context: WriteContext): WrittenRequest {
  const { quirks, losses } = context;
  const { user, cacheKey, parallelCalls, verbosity } = request;
  const plan = planTools(request, context);
  const reasoning = planReasoning(request.reasoning, quirks, losses);
  const sampling = planSampling(request.sampling, context, { maxTemperature: 2, isReasoning: false });
  const { shownPath } = request.reasoning ?? {};
  if (shownPath !== undefined) losses.add(shownPath, 'dropped', 'the vendor decides what it shows');
  nameUser(user, context);
  if (cacheKey && !quirks.cacheKey) losses.add(cacheKey.path, 'dropped', 'the model takes no cache key');
  if (verbosity && !quirks.verbosity) losses.add(verbosity.path, 'dropped', 'the model does not take it');
  const hasTools = plan.tools.some(({ kind }) => kind !== 'hosted');
  if (parallelCalls && !hasTools) losses.add(parallelCalls.path, 'dropped', 'there are no tools');
  const body = present<ChatBody>({
    model: context.model,
    messages: writeMessages(request.system, withPairedCalls(request.messages, losses), context),
    tools: hasTools ? writeTools(plan) : undefined,
    tool_choice: hasTools ? writeChoice(plan) : undefined,
    parallel_tool_calls: hasTools && quirks.parallelChoice ? parallelCalls?.value : undefined,
    [quirks.tokensMember]: planTokens(request, context),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    seed: sampling.seed,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    stop: sampling.stop as string[] | undefined,
    reasoning_effort: reasoning?.effort as ChatBody['reasoning_effort'],
    response_format: writeFormat(request, context),
    verbosity: quirks.verbosity ? verbosity?.value : undefined,
    safety_identifier: user && quirks.user ? hashOf(user.value) : undefined,
    prompt_cache_key: quirks.cacheKey ? cacheKey?.value : undefined,
    web_search_options: plan.tools.some(({ kind }) => kind === 'hosted') ? {} : undefined,
    stream: request.stream,
  } as ChatBody);
  return { body, changes: plan.changes };
}

function writeTools({ tools }: ToolPlan): ChatCompletionTool[] {
  return tools.flatMap((tool): ChatCompletionTool[] => {
    if (tool.kind === 'hosted') return [];
    const { name, description } = tool;
    if (tool.kind === 'function') {
      const parameters = raw<Record<string, unknown>>(tool.schema);
      const wire = present({ name, description, parameters, strict: tool.strict });
      return [{ type: 'function', function: wire } as ChatCompletionTool];
    }
    const { syntax, grammar } = tool;
    const format =
      grammar === undefined
        ? { type: 'text' }
        : { type: 'grammar', grammar: { syntax: syntax ?? 'lark', definition: grammar } };
    return [{ type: 'custom', custom: present({ name, description, format }) } as ChatCompletionTool];
  });
}

function writeChoice({ choice, tools }: ToolPlan): ChatBody['tool_choice'] {
  if (!choice) return undefined;
  const { mode, name } = choice;
  if (mode === 'any') return 'required';
  if (mode !== 'one') return mode;
  const isCustom = tools.some((tool) => tool.kind === 'freeform' && tool.name === name);
  return isCustom ? { type: 'custom', custom: { name } } : { type: 'function', function: { name } };
}

function writeFormat(
  { output }: ModelRequest,
  { quirks, losses }: WriteContext,
): ChatBody['response_format'] {
  if (!output || !quirks.structuredOutput) return undefined;
  const { schema, name = 'output', description, strict, path } = output;
  if (!schema) return { type: 'json_object' };
  const isStrict = (strict ?? false) && quirks.strictTools && qualifiesForStrict(schema);
  if (strict && !isStrict) losses.add(path, 'changed', 'the schema does not qualify for strict mode');
  const wire = present({ name, description, schema: raw<Record<string, unknown>>(schema), strict: isStrict });
  return { type: 'json_schema', json_schema: wire } as ChatBody['response_format'];
}
