import type {
  BetaContentBlockParam,
  BetaMessageParam,
  BetaTextBlockParam,
  BetaTool,
  BetaToolChoice,
  BetaToolUnion,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { withPairedCalls } from '../conversation/history.ts';
import { splitInstructions } from '../conversation/instructions.ts';
import type { Message, ModelRequest, TextPart } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { planReasoning, type ReasoningPlan } from '../quirks/reasoning.ts';
import { planSampling } from '../quirks/sampling.ts';
import { planTokens } from '../quirks/tokens.ts';
import { planTools, type ToolPlan, writesOutput } from '../tools/planTools.ts';
import { hashOf } from '../wire/ids.ts';
import { nameUser, type WriteContext, type WrittenRequest } from '../writeContext.ts';
import { type MessagesBody, writeCacheMark } from './wire.ts';
import { writePart } from './writeContent.ts';

/** The limit where neither the request nor the catalog has one. */
const REQUIRED_TOKENS = 4_096;

/** Writes a body of Anthropic's messages. The limit of output tokens is required there. */
export function writeMessagesRequest(request: ModelRequest, context: WriteContext): WrittenRequest {
  const { quirks, losses } = context;
  const { system: texts, messages: turns } = splitInstructions(request, context);
  const system = texts.filter(({ text }) => text !== '').map((part) => textBlock(part, quirks.cacheMarks));
  const messages = withPairedCalls(turns, losses);
  const plan = planTools(request, context);
  const maxTokens = planTokens(request, context) ?? REQUIRED_TOKENS;
  const written = writeMessages(messages, context);
  const asked = planReasoning(request.reasoning, quirks, losses);
  const fit = fitReasoning(asked, request, plan, maxTokens, context);
  const reasoning = fitHistory(fit, request, written, context);
  const sampling = planSampling(request.sampling, context, {
    maxTemperature: 1,
    isReasoning: isOn(reasoning),
  });
  if (request.verbosity) losses.add(request.verbosity.path, 'dropped', 'the model does not take it');
  if (request.cacheKey) losses.add(request.cacheKey.path, 'dropped', 'prefixes are cached by marks there');
  nameUser(request.user, context);
  const body = present<MessagesBody>({
    model: context.model,
    max_tokens: maxTokens,
    system: system.length > 0 ? system : undefined,
    messages: written,
    tools: plan.tools.length > 0 ? writeTools(plan) : undefined,
    tool_choice: writeChoice(plan, request, context),
    thinking: reasoning && writeThinking(reasoning),
    output_config: writeOutputConfig(request, reasoning, context),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    stop_sequences: sampling.stop as string[] | undefined,
    metadata: request.user && quirks.user ? { user_id: hashOf(request.user.value) } : undefined,
    stream: request.stream,
  });
  return { body, changes: plan.changes };
}

function textBlock(part: TextPart, takesMarks: boolean): BetaTextBlockParam {
  return present<BetaTextBlockParam>({
    type: 'text',
    text: part.text,
    cache_control: takesMarks ? writeCacheMark(part.cache) : undefined,
  });
}

function writeMessages(messages: readonly Message[], context: WriteContext): BetaMessageParam[] {
  const written: { role: 'user' | 'assistant'; content: BetaContentBlockParam[] }[] = [];
  for (const { role, parts } of messages) {
    const content: BetaContentBlockParam[] = [];
    for (const part of parts) {
      const block = writePart(part, context);
      if (block) content.push(block);
    }
    if (content.length === 0) continue;
    const last = written.at(-1);
    const wireRole = role === 'assistant' ? 'assistant' : 'user';
    if (last?.role === wireRole) for (const block of content) last.content.push(block);
    else written.push({ role: wireRole, content });
  }
  return written;
}

function writeTools({ tools }: ToolPlan): BetaToolUnion[] {
  return tools.map((tool): BetaToolUnion => {
    if (tool.kind === 'hosted') return { type: 'web_search_20250305', name: 'web_search' };
    const schema = tool.kind === 'function' ? tool.schema : undefined;
    return present<BetaTool>({
      name: tool.name,
      description: tool.description,
      input_schema: schema && raw<BetaTool.InputSchema>(schema),
      strict: tool.kind === 'function' && tool.strict ? true : undefined,
      cache_control: tool.kind === 'function' ? writeCacheMark(tool.cache) : undefined,
    });
  });
}

function writeChoice(
  { choice, tools }: ToolPlan,
  { parallelCalls }: ModelRequest,
  { losses }: WriteContext,
): BetaToolChoice | undefined {
  if (tools.length === 0) {
    if (parallelCalls) losses.add(parallelCalls.path, 'dropped', 'there are no tools');
    return undefined;
  }
  const mode = choice?.mode ?? (parallelCalls ? 'auto' : undefined);
  if (mode === undefined) return undefined;
  if (mode === 'none') {
    if (parallelCalls) losses.add(parallelCalls.path, 'dropped', 'the model may not call tools');
    return { type: 'none' };
  }
  const disable_parallel_tool_use = parallelCalls ? !parallelCalls.value : undefined;
  if (mode === 'one') {
    return present<BetaToolChoice>({ type: 'tool', name: choice?.name ?? '', disable_parallel_tool_use });
  }
  return present<BetaToolChoice>({ type: mode, disable_parallel_tool_use });
}

/** What reasoning may take of a limit that is not above its budget. */
const REASONING_SHARE = 0.75;

function isOn(reasoning: ReasoningPlan | undefined): boolean {
  return reasoning !== undefined && !reasoning.isOff;
}

/** Reasoning needs a budget below the limit, and excludes a forced call. */
function fitReasoning(
  plan: ReasoningPlan | undefined,
  { reasoning: asked }: ModelRequest,
  { choice }: ToolPlan,
  maxTokens: number,
  { quirks, losses }: WriteContext,
): ReasoningPlan | undefined {
  if (!plan || plan.isOff || !asked) return plan;
  const isForced = choice?.mode === 'any' || choice?.mode === 'one';
  if (isForced && !quirks.forcesCalls) {
    losses.add(asked.path, 'changed', 'the model does not reason where a call is forced');
    return { isOff: true, isShown: false };
  }
  const { budget } = plan;
  if (budget === undefined || budget < maxTokens) return plan;
  const most = Math.floor(maxTokens * REASONING_SHARE);
  losses.add(asked.path, 'changed', 'the budget has to leave room for the answer');
  return most >= (quirks.budget?.min ?? 1_024)
    ? { isOff: false, budget: most, isShown: plan.isShown }
    : { isOff: true, isShown: false };
}

/** With a budget, a turn that a call interrupted has to go on with its reasoning, which clients may not have kept. */
function fitHistory(
  plan: ReasoningPlan | undefined,
  { reasoning: asked }: ModelRequest,
  written: readonly BetaMessageParam[],
  { losses }: WriteContext,
): ReasoningPlan | undefined {
  const [turn, results] = written.slice(-2);
  if (plan?.budget === undefined || !asked || turn?.role !== 'assistant' || !results) return plan;
  const [first] = turn.content as readonly BetaContentBlockParam[];
  const isReasoned = first?.type === 'thinking' || first?.type === 'redacted_thinking';
  const isCalling = (results.content as readonly BetaContentBlockParam[])[0]?.type === 'tool_result';
  if (isReasoned || !isCalling) return plan;
  losses.add(asked.path, 'changed', 'the turn goes on without its reasoning, which the request lacks');
  return { isOff: true, isShown: false };
}

function writeThinking({ isOff, budget, isShown, effort }: ReasoningPlan): MessagesBody['thinking'] {
  if (isOff) return { type: 'disabled' };
  const display = isShown ? 'summarized' : 'omitted';
  if (budget !== undefined) return { type: 'enabled', budget_tokens: budget, display };
  return effort === 'none' ? { type: 'disabled' } : { type: 'adaptive', display };
}

function writeOutputConfig(
  { output }: ModelRequest,
  reasoning: ReasoningPlan | undefined,
  context: WriteContext,
): MessagesBody['output_config'] {
  const effort = reasoning?.effort;
  const schema = output && writesOutput(output, context) ? output.schema : undefined;
  if (!effort && !schema) return undefined;
  return present<NonNullable<MessagesBody['output_config']>>({
    effort: effort === 'none' || effort === 'minimal' ? undefined : effort,
    format: schema && { type: 'json_schema', schema: raw(schema) },
  });
}
