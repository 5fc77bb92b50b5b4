import type { ModelOutput } from '../model/modelOutput.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import type { BillLine } from '../shared/billLine.ts';

/** Anthropic's usage, with this many output tokens so far. */
export function usageOf(modelOutput: ModelOutput, { usage, hidesCacheTtl }: Behaviour, outputTokens: number) {
  if (usage === 'none') return undefined;
  const share = usage === 'zero' ? 0 : 1;
  const { serving } = modelOutput;
  const written = modelOutput.cacheWriteTokens + modelOutput.cacheWrite1hTokens;
  const tier = serving.serviceTier;
  return {
    input_tokens: share * (modelOutput.inputTokens - modelOutput.cachedTokens - written),
    cache_creation_input_tokens: share * written,
    cache_read_input_tokens: share * modelOutput.cachedTokens,
    cache_creation: hidesCacheTtl
      ? null
      : {
          ephemeral_5m_input_tokens: share * modelOutput.cacheWriteTokens,
          ephemeral_1h_input_tokens: share * modelOutput.cacheWrite1hTokens,
        },
    output_tokens: share * outputTokens,
    service_tier: tier === '' || tier === 'auto' ? 'standard' : tier,
    ...(serving.speed !== '' && { speed: serving.speed }),
    ...(serving.geography !== '' && { inference_geo: serving.geography }),
  };
}

/** The usage of a whole response. */
export function wholeUsage(modelOutput: ModelOutput, behaviour: Behaviour) {
  const output = modelOutput.reasoningTokens + modelOutput.textTokens;
  const usage = usageOf(modelOutput, behaviour, output);
  return usage && { ...usage, ...atTheEnd(modelOutput, usage) };
}

/** The usage at the end of a stream, which does not separate cache writes by their time to live. */
export function finalUsage(modelOutput: ModelOutput, behaviour: Behaviour) {
  const usage = wholeUsage(modelOutput, behaviour);
  if (!usage) return undefined;
  const { cache_creation: _, service_tier: __, speed: ___, inference_geo: ____, ...reported } = usage;
  return reported;
}

/** What is only known at the end: server-side tools, and iterations that the top level does not include. */
function atTheEnd({ serving }: ModelOutput, usage: NonNullable<ReturnType<typeof usageOf>>) {
  // Code is billed by the hours of its container, which the usage does not report.
  const { web_search: searches = 0, web_fetch: fetches = 0 } = serving.toolUses;
  const usesTools = searches + fetches > 0;
  const others = Object.entries(serving.extra).map(([type, line]) => iteration(type, line));
  const isLong = others.length > 0 || serving.fallback !== undefined;
  const own = {
    type: serving.fallback ? 'fallback_message' : 'message',
    model: serving.model,
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    cache_creation: usage.cache_creation,
    cache_creation_input_tokens: usage.cache_creation_input_tokens,
    cache_read_input_tokens: usage.cache_read_input_tokens,
  };
  return {
    ...(usesTools && {
      server_tool_use: {
        web_search_requests: searches,
        web_fetch_requests: fetches,
      },
    }),
    ...(isLong && { iterations: [...others, own] }),
  };
}

function iteration(type: string, line: BillLine) {
  return {
    type,
    ...(type !== 'compaction' && { model: line.model }),
    input_tokens: line.inputTokens,
    output_tokens: line.outputTokens,
    cache_creation: null,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  };
}
