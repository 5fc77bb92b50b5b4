import { checkChatHistory } from '../history/chatHistory.ts';
import type { Exchange } from '../http/exchange.ts';
import { callOf, composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import { newCallId, newId } from '../shared/ids.ts';
import type { JsonRecord } from '../shared/parameters.ts';
import type { VendorTraits } from '../shared/traits.ts';
import { openaiErrorBody, serverError } from '../shared/vendorError.ts';
import { type ChatRequest, parseChatRequest } from './chatRequest.ts';
import { chatAnnotations } from './citedSource.ts';
import { chargeWhole, generate, generationTime, openBill, thinkingTime, totalOutput } from './generation.ts';

/** `POST /v1/chat/completions`. */
export async function chatCompletions(exchange: Exchange): Promise<void> {
  const { body, behaviour, traits, signer } = exchange;
  const request = parseChatRequest(body, traits, behaviour.honours ?? traits.honours);
  if (signer) checkChatHistory(request.body as JsonRecord, traits);
  const modelOutput = composeOutput(request, behaviour, traits);
  await (request.stream
    ? sendStream(exchange, request, modelOutput)
    : sendWhole(exchange, request, modelOutput));
}

async function sendWhole(exchange: Exchange, request: ChatRequest, modelOutput: ModelOutput): Promise<void> {
  const { traits } = exchange;
  const ids = Array.from({ length: modelOutput.calls }, () => newCallId(traits));
  const choices = Array.from({ length: request.choices }, (_, index) => ({
    index,
    message: {
      role: 'assistant',
      content: modelOutput.toolName === undefined ? modelOutput.text : null,
      ...(modelOutput.toolName !== undefined && {
        tool_calls: ids.map((id) => ({
          id,
          type: 'function',
          function: { name: modelOutput.toolName, arguments: modelOutput.text },
        })),
      }),
      refusal: null,
      annotations: citedIn(modelOutput, exchange.behaviour),
    },
    logprobs: null,
    finish_reason: finishReason(modelOutput),
  }));
  const usage = usageOf(request, modelOutput, exchange.behaviour);
  const completion = { ...head('chat.completion', modelOutput), choices, ...(usage && { usage }) };

  const entry = openBill(exchange, request, modelOutput);
  chargeWhole(entry, request, modelOutput);
  await generationTime(exchange);
  await complete(entry, () => exchange.reply.json(200, completion));
}

async function sendStream(exchange: Exchange, request: ChatRequest, modelOutput: ModelOutput): Promise<void> {
  const { reply, behaviour, traits } = exchange;
  const isAsked = traits.streamUsage === 'if_asked';
  const reported = !isAsked || request.includeUsage ? usageOf(request, modelOutput, behaviour) : undefined;
  const usage = isAsked ? reported : undefined;
  const common = { ...head('chat.completion.chunk', modelOutput), ...(usage && { usage: null }) };
  const send = (chunk: object) => reply.write(`data: ${JSON.stringify({ ...common, ...chunk })}\n\n`);
  const sendDelta = (index: number, delta: object, finish: string | null = null, more: object = {}) =>
    send({ choices: [{ index, delta, logprobs: null, finish_reason: finish }], ...more });
  const indices = Array.from({ length: request.choices }, (_, index) => index);

  const entry = openBill(exchange, request, modelOutput);
  await thinkingTime(exchange, entry, request, modelOutput);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  for (const index of indices) await sendDelta(index, openingDelta(modelOutput, traits));
  const begun = indices.map(() => 0);
  const isWhole = await generate(exchange, entry, request, modelOutput, async (piece, index, at) => {
    const call = callOf(modelOutput, at);
    if (call !== begun[index])
      await sendDelta(index, { tool_calls: [openedCall(modelOutput, call, traits)] });
    begun[index] = call;
    await sendDelta(index, pieceDelta(modelOutput, piece, call));
  });
  if (!isWhole) {
    await reply.write(`data: ${JSON.stringify(openaiErrorBody(serverError()))}\n\n`);
    await reply.end();
    return;
  }

  const annotations = citedIn(modelOutput, behaviour);
  for (const index of indices) {
    if (annotations.length > 0) await sendDelta(index, { annotations });
    const isLast = index === indices.length - 1;
    const unasked = isLast && reported && !isAsked ? unaskedUsage(traits, reported) : {};
    await sendDelta(index, {}, finishReason(modelOutput), unasked);
  }
  if (usage) await reply.writeEvent('', { ...common, choices: [], usage });
  await complete(entry, async () => {
    await reply.write('data: [DONE]\n\n');
    await reply.end();
  });
}

/** What the last chunk of a stream says of its usage, of a vendor that is not asked for it. */
function unaskedUsage({ streamUsage }: VendorTraits, usage: object): object {
  return streamUsage === 'x_groq' ? { x_groq: { id: newId('req_'), usage } } : { usage };
}

function openingDelta(modelOutput: ModelOutput, traits: VendorTraits) {
  if (modelOutput.toolName === undefined) return { role: 'assistant', content: '', refusal: null };
  const call = openedCall(modelOutput, 0, traits);
  return { role: 'assistant', content: null, tool_calls: [call], refusal: null };
}

function openedCall({ toolName }: ModelOutput, index: number, traits: VendorTraits) {
  return { index, id: newCallId(traits), type: 'function', function: { name: toolName, arguments: '' } };
}

function pieceDelta({ toolName }: ModelOutput, piece: string, call: number) {
  if (toolName === undefined) return { content: piece };
  return { tool_calls: [{ index: call, function: { arguments: piece } }] };
}

function citedIn({ toolName, text }: ModelOutput, { cites }: Behaviour): object[] {
  return toolName === undefined ? chatAnnotations(text, cites) : [];
}

function finishReason(modelOutput: ModelOutput): 'stop' | 'length' | 'tool_calls' {
  if (modelOutput.cut) return 'length';
  return modelOutput.toolName === undefined ? 'stop' : 'tool_calls';
}

/** The fields that a completion and its chunks begin with. */
function head(object: string, { serving }: ModelOutput) {
  return {
    id: newId('chatcmpl-'),
    object,
    created: Math.floor(Date.now() / 1000),
    model: serving.model,
    service_tier: ['', 'auto'].includes(serving.serviceTier) ? 'default' : serving.serviceTier,
    system_fingerprint: 'fp_mockvendor',
  };
}

function usageOf(request: ChatRequest, modelOutput: ModelOutput, { usage }: Behaviour) {
  if (usage === 'none') return undefined;
  const share = usage === 'zero' ? 0 : 1;
  const { media, serving } = modelOutput;
  const input = share * modelOutput.inputTokens;
  const output = share * totalOutput(request, modelOutput);
  const searches = serving.toolUses.web_search;
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: {
      cached_tokens: share * modelOutput.cachedTokens,
      audio_tokens: share * (media.inputAudio + media.cachedAudio),
      ...(media.cachedAudio > 0 && { cached_tokens_details: { audio_tokens: share * media.cachedAudio } }),
      ...(media.inputImage > 0 && { image_tokens: share * media.inputImage }),
    },
    completion_tokens_details: {
      reasoning_tokens: share * request.choices * modelOutput.reasoningTokens,
      audio_tokens: share * media.outputAudio,
      ...(media.outputImage > 0 && { image_tokens: share * media.outputImage }),
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
    ...(searches !== undefined && { server_tool_use: { web_search_requests: share * searches } }),
  };
}
