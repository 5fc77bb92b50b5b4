import type { Exchange } from '../http/exchange.ts';
import type { ModelOutput } from '../model/modelOutput.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import { newId } from '../shared/ids.ts';
import { textOfTokens } from '../shared/tokens.ts';
import { annotations } from './citedSource.ts';
import { totalOutput } from './generation.ts';
import type { ResponsesRequest } from './responsesRequest.ts';

/** A response without output yet. */
export function begin(request: ResponsesRequest, { serving }: ModelOutput) {
  const { text } = request.body as { text?: object | null };
  return {
    id: newId('resp_'),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    status: 'in_progress',
    background: request.background,
    ...(request.conversationId !== null && { conversation: { id: request.conversationId } }),
    error: null,
    incomplete_details: null,
    instructions: request.instructions,
    max_output_tokens: request.maxOutputTokens ?? null,
    model: serving.model,
    output: [] as unknown[],
    parallel_tool_calls: true,
    previous_response_id: request.previousResponseId,
    // Until it is served, the tier is the one that was asked for.
    service_tier: request.asked.serviceTier || 'auto',
    store: request.store,
    temperature: 1,
    text: { format: { type: 'text' }, ...text },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    metadata: {},
    usage: null as object | null,
  };
}

export type ResponseBody = ReturnType<typeof begin>;

export function finished(
  begun: ResponseBody,
  items: readonly object[],
  request: ResponsesRequest,
  modelOutput: ModelOutput,
  behaviour: Behaviour,
): ResponseBody {
  const tier = modelOutput.serving.serviceTier;
  return {
    ...begun,
    status: modelOutput.cut ? 'incomplete' : 'completed',
    incomplete_details: (modelOutput.cut ? { reason: 'max_output_tokens' } : null) as null,
    output: [...items],
    service_tier: tier === '' || tier === 'auto' ? 'default' : tier,
    ...toolUsage(modelOutput),
    usage: usageOf(request, modelOutput, behaviour),
  };
}

/** The same before it is finished. */
export function pending(begun: ResponseBody, status: 'queued' | 'in_progress', behaviour: Behaviour) {
  const zero = {
    input_tokens: 0,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 0,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 0,
  };
  return { ...begun, status, usage: behaviour.pendingUsage === 'zero' ? zero : null };
}

/** What comes before the answer: uses of the vendor's tools, and the reasoning of a vendor that signs it. */
export function leadingItems(
  request: ResponsesRequest,
  modelOutput: ModelOutput,
  { signer, behaviour }: Pick<Exchange, 'signer' | 'behaviour'>,
): object[] {
  const { reasoning, include } = request.body as {
    reasoning?: { summary?: unknown } | null;
    include?: unknown;
  };
  const tools = toolItems(request, modelOutput);
  if (!signer || modelOutput.reasoningTokens === 0) return tools;
  const text = textOfTokens(modelOutput.reasoningTokens);
  const isShown = Boolean(reasoning?.summary) && !behaviour.hidesReasoning;
  const isAsked = Array.isArray(include) && include.includes('reasoning.encrypted_content');
  const item = {
    id: newId('rs_'),
    type: 'reasoning',
    summary: isShown ? [{ type: 'summary_text', text }] : [],
    ...(isAsked && { encrypted_content: signer.sign(text) }),
  };
  return [...tools, item];
}

/** The answer, or its calls. */
export function outputItems(request: ResponsesRequest, modelOutput: ModelOutput, behaviour: Behaviour) {
  return Array.from({ length: modelOutput.calls }, () => outputItem(request, modelOutput, behaviour));
}

function outputItem({ tools }: ResponsesRequest, modelOutput: ModelOutput, { cites }: Behaviour) {
  const status = 'completed';
  if (modelOutput.toolName !== undefined) {
    const custom = tools.find(({ name }) => name === modelOutput.toolName)?.custom;
    if (custom) return customCall(modelOutput, status, custom.namespace);
    return {
      id: newId('fc_'),
      type: 'function_call',
      status,
      call_id: newId('call_'),
      name: modelOutput.toolName,
      arguments: modelOutput.text,
    };
  }
  const part = {
    type: 'output_text',
    text: modelOutput.text,
    annotations: annotations(modelOutput.text, cites),
    logprobs: [],
  };
  return { id: newId('msg_'), type: 'message', status, role: 'assistant', content: [part] };
}

function customCall({ toolName, text }: ModelOutput, status: string, namespace: string | undefined) {
  return {
    id: newId('ctc_'),
    type: 'custom_tool_call',
    status,
    call_id: newId('call_'),
    name: toolName,
    ...(namespace !== undefined && { namespace }),
    input: text,
  };
}

/** The output items of server-side tools. */
function toolItems({ asked }: ResponsesRequest, { serving }: ModelOutput): object[] {
  const containerOf = (name: string) => {
    const tool = asked.serverTools.find((one) => one.name === name);
    const size = /_(\d+g)$/.exec(tool?.billedAs ?? '')?.[1] ?? '1g';
    return tool?.container ?? newId(`cntr_${size}_`);
  };
  return Object.entries(serving.toolUses).flatMap(([name, uses]) =>
    Array.from({ length: uses }, () => ({
      id: newId(`${name.slice(0, 2)}_`),
      type: `${name}_call`,
      status: 'completed',
      ...(name === 'web_search' && { action: { type: 'search', query: 'weigh' } }),
      ...(name === 'code_interpreter' && { container_id: containerOf(name), code: '1 + 1', outputs: null }),
      ...(name === 'shell' && {
        call_id: newId('call_'),
        action: { commands: ['ls'], max_output_length: null, timeout_ms: null },
        environment: { type: 'container_reference', container_id: containerOf(name) },
      }),
      ...(name === 'file_search' && { queries: ['weigh'], results: null }),
      ...(name === 'image_generation' && { result: 'aW1hZ2U=', model: serving.extra.image_gen?.model }),
    })),
  );
}

/** What server-side tools used, beside the usage of the model. */
function toolUsage({ serving }: ModelOutput) {
  const { web_search: searches = 0, file_search: files = 0 } = serving.toolUses;
  // Code is billed by its containers, whatever their sizes.
  const inContainers = Object.entries(serving.billedUses).filter(([name]) =>
    name.startsWith('code_interpreter'),
  );
  const runs = inContainers.reduce((sum, [, uses]) => sum + uses, 0);
  const { image_gen: image } = serving.extra;
  if (searches + files + runs === 0 && !image) return {};
  return {
    tool_usage: {
      web_search: { num_requests: searches },
      ...(files > 0 && { file_search: { num_requests: files } }),
      ...(runs > 0 && { code_interpreter: { num_requests: runs } }),
      image_gen: {
        input_tokens: image?.inputTokens ?? 0,
        input_tokens_details: { image_tokens: 0, text_tokens: image?.inputTokens ?? 0 },
        output_tokens: image?.outputTokens ?? 0,
        output_tokens_details: { image_tokens: image?.outputImageTokens ?? 0, text_tokens: 0 },
        total_tokens: (image?.inputTokens ?? 0) + (image?.outputTokens ?? 0),
      },
    },
  };
}

export function usageOf(request: ResponsesRequest, modelOutput: ModelOutput, { usage }: Behaviour) {
  if (usage === 'none') return null;
  const share = usage === 'zero' ? 0 : 1;
  const { media } = modelOutput;
  const input = share * modelOutput.inputTokens;
  const output = share * totalOutput(request, modelOutput);
  const audioIn = media.inputAudio + media.cachedAudio;
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: share * modelOutput.cachedTokens,
      ...(audioIn > 0 && { audio_tokens: share * audioIn }),
      ...(media.cachedAudio > 0 && { cached_tokens_details: { audio_tokens: share * media.cachedAudio } }),
      ...(media.inputImage > 0 && { image_tokens: share * media.inputImage }),
    },
    output_tokens: output,
    output_tokens_details: {
      reasoning_tokens: share * modelOutput.reasoningTokens,
      ...(media.outputAudio > 0 && { audio_tokens: share * media.outputAudio }),
      ...(media.outputImage > 0 && { image_tokens: share * media.outputImage }),
    },
    total_tokens: input + output,
  };
}
