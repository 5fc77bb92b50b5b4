import { type Answer, composeAnswer } from './answer.ts';
import type { Behaviour } from './behaviour.ts';
import { complete } from './bill.ts';
import { type ChatRequest, parseChatRequest } from './chatRequest.ts';
import type { Exchange } from './exchange.ts';
import { chargeReasoning, chargeWhole, generate, openBill } from './generation.ts';
import { newId } from './ids.ts';
import { openaiErrorBody, serverError } from './vendorError.ts';

/** `POST /v1/chat/completions`. */
export async function chatCompletions(exchange: Exchange): Promise<void> {
  const request = parseChatRequest(exchange.body);
  const answer = composeAnswer(request, exchange.behaviour);
  await (request.stream ? sendStream(exchange, request, answer) : sendWhole(exchange, request, answer));
}

async function sendWhole(exchange: Exchange, request: ChatRequest, answer: Answer): Promise<void> {
  const toolCallId = newId('call_');
  const choices = Array.from({ length: request.choices }, (_, index) => ({
    index,
    message: {
      role: 'assistant',
      content: answer.toolName === undefined ? answer.text : null,
      ...(answer.toolName !== undefined && {
        tool_calls: [
          { id: toolCallId, type: 'function', function: { name: answer.toolName, arguments: answer.text } },
        ],
      }),
      refusal: null,
      annotations: [],
    },
    logprobs: null,
    finish_reason: finishReason(answer),
  }));
  const usage = usageOf(request, answer, exchange.behaviour);
  const completion = { ...head('chat.completion', request.model), choices, ...(usage && { usage }) };

  const entry = openBill(exchange, request, answer);
  chargeWhole(entry, request, answer);
  await complete(entry, () => exchange.reply.json(200, completion));
}

async function sendStream(exchange: Exchange, request: ChatRequest, answer: Answer): Promise<void> {
  const { reply, behaviour } = exchange;
  const usage = request.includeUsage ? usageOf(request, answer, behaviour) : undefined;
  const common = { ...head('chat.completion.chunk', request.model), ...(usage && { usage: null }) };
  const send = (chunk: object) => reply.write(`data: ${JSON.stringify({ ...common, ...chunk })}\n\n`);
  const sendDelta = (index: number, delta: object, finish: string | null = null) =>
    send({ choices: [{ index, delta, logprobs: null, finish_reason: finish }] });
  const indices = Array.from({ length: request.choices }, (_, index) => index);

  const entry = openBill(exchange, request, answer);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  chargeReasoning(entry, request, answer);
  for (const index of indices) await sendDelta(index, openingDelta(answer));
  const isWhole = await generate(exchange, entry, request, answer, (piece, index) =>
    sendDelta(index, pieceDelta(answer, piece)),
  );
  if (!isWhole) {
    await reply.write(`data: ${JSON.stringify(openaiErrorBody(serverError()))}\n\n`);
    await reply.end();
    return;
  }

  for (const index of indices) await sendDelta(index, {}, finishReason(answer));
  if (usage) await send({ choices: [], usage });
  await complete(entry, async () => {
    await reply.write('data: [DONE]\n\n');
    await reply.end();
  });
}

function openingDelta({ toolName }: Answer) {
  if (toolName === undefined) return { role: 'assistant', content: '', refusal: null };
  const call = {
    index: 0,
    id: newId('call_'),
    type: 'function',
    function: { name: toolName, arguments: '' },
  };
  return { role: 'assistant', content: null, tool_calls: [call], refusal: null };
}

function pieceDelta({ toolName }: Answer, piece: string) {
  if (toolName === undefined) return { content: piece };
  return { tool_calls: [{ index: 0, function: { arguments: piece } }] };
}

function finishReason(answer: Answer): 'stop' | 'length' | 'tool_calls' {
  if (answer.cut) return 'length';
  return answer.toolName === undefined ? 'stop' : 'tool_calls';
}

/** The fields that a completion and its chunks begin with. */
function head(object: string, model: string) {
  return {
    id: newId('chatcmpl-'),
    object,
    created: Math.floor(Date.now() / 1000),
    model,
    service_tier: 'default',
    system_fingerprint: 'fp_mockvendor',
  };
}

function usageOf({ choices }: ChatRequest, answer: Answer, { usage }: Behaviour) {
  if (usage === 'none') return undefined;
  const share = usage === 'zero' ? 0 : 1;
  const input = share * answer.inputTokens;
  const reasoning = share * choices * answer.reasoningTokens;
  const output = share * choices * answer.textTokens + reasoning;
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: share * answer.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}
