import { type Answer, composeAnswer } from './answer.ts';
import type { Behaviour } from './behaviour.ts';
import { complete } from './bill.ts';
import type { Exchange } from './exchange.ts';
import { chargeReasoning, chargeWhole, generate, openBill } from './generation.ts';
import { newId } from './ids.ts';
import { parseResponsesRequest, type ResponsesRequest } from './responsesRequest.ts';
import { serverError } from './vendorError.ts';

/** `POST /v1/responses`. */
export async function responses(exchange: Exchange): Promise<void> {
  const request = parseResponsesRequest(exchange.body, exchange.stored);
  const answer = composeAnswer(request, exchange.behaviour);
  await (request.stream ? sendStream(exchange, request, answer) : sendWhole(exchange, request, answer));
}

async function sendWhole(exchange: Exchange, request: ResponsesRequest, answer: Answer): Promise<void> {
  const begun = begin(request);
  const response = finished(begun, outputItem(answer, 'completed'), answer, exchange.behaviour);
  const entry = openBill(exchange, request, answer);
  chargeWhole(entry, request, answer);
  keep(exchange, request, response, answer);
  const shown = request.background ? { ...begun, status: 'queued' } : response;
  await complete(entry, () => exchange.reply.json(200, shown));
}

async function sendStream(exchange: Exchange, request: ResponsesRequest, answer: Answer): Promise<void> {
  const { reply, behaviour } = exchange;
  let sequence = 0;
  const send = (type: string, fields: object) => {
    const event = { type, sequence_number: sequence, ...fields };
    sequence += 1;
    return reply.write(`event: ${type}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  const begun = begin(request);
  const item = outputItem(answer, 'in_progress');
  const where = { item_id: item.id, output_index: 0 };
  const inPart = { ...where, content_index: 0 };
  const emptyPart = { type: 'output_text', text: '', annotations: [], logprobs: [] };

  const entry = openBill(exchange, request, answer);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  chargeReasoning(entry, request, answer);
  await send('response.created', { response: begun });
  await send('response.in_progress', { response: begun });
  const isCall = answer.toolName !== undefined;
  const opened = isCall ? { ...item, arguments: '' } : { ...item, content: [] };
  await send('response.output_item.added', { output_index: 0, item: opened });
  if (!isCall) await send('response.content_part.added', { ...inPart, part: emptyPart });
  const isWhole = await generate(exchange, entry, request, answer, (delta) =>
    isCall
      ? send('response.function_call_arguments.delta', { ...where, delta })
      : send('response.output_text.delta', { ...inPart, delta, logprobs: [] }),
  );
  if (!isWhole) {
    const { code, message } = serverError();
    await send('error', { code: code ?? 'server_error', message, param: null });
    await reply.end();
    return;
  }
  const done = { ...outputItem(answer, 'completed'), id: item.id };
  if (isCall) await send('response.function_call_arguments.done', { ...where, arguments: answer.text });
  else {
    await send('response.output_text.done', { ...inPart, text: answer.text, logprobs: [] });
    await send('response.content_part.done', { ...inPart, part: { ...emptyPart, text: answer.text } });
  }
  await send('response.output_item.done', { output_index: 0, item: done });
  const response = finished(begun, done, answer, behaviour);
  keep(exchange, request, response, answer);
  await complete(entry, async () => {
    await send(answer.cut ? 'response.incomplete' : 'response.completed', { response });
    await reply.end();
  });
}

/** A response that has not said anything yet. */
function begin(request: ResponsesRequest) {
  return {
    id: newId('resp_'),
    object: 'response',
    created_at: Math.floor(Date.now() / 1000),
    status: 'in_progress',
    background: request.background,
    error: null,
    incomplete_details: null,
    instructions: request.instructions,
    max_output_tokens: request.maxOutputTokens ?? null,
    model: request.model,
    output: [] as unknown[],
    parallel_tool_calls: true,
    previous_response_id: request.previousResponseId,
    store: request.store,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    metadata: {},
    usage: null,
  };
}

function finished(begun: ReturnType<typeof begin>, item: object, answer: Answer, behaviour: Behaviour) {
  return {
    ...begun,
    status: answer.cut ? 'incomplete' : 'completed',
    incomplete_details: answer.cut ? { reason: 'max_output_tokens' } : null,
    output: [item],
    usage: usageOf(answer, behaviour),
  };
}

function outputItem(answer: Answer, status: string) {
  if (answer.toolName !== undefined) {
    return {
      id: newId('fc_'),
      type: 'function_call',
      status,
      call_id: newId('call_'),
      name: answer.toolName,
      arguments: answer.text,
    };
  }
  const part = { type: 'output_text', text: answer.text, annotations: [], logprobs: [] };
  return { id: newId('msg_'), type: 'message', status, role: 'assistant', content: [part] };
}

function usageOf(answer: Answer, { usage }: Behaviour) {
  if (usage === 'none') return null;
  const share = usage === 'zero' ? 0 : 1;
  const input = share * answer.inputTokens;
  const output = share * (answer.textTokens + answer.reasoningTokens);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: share * answer.cachedTokens },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: share * answer.reasoningTokens },
    total_tokens: input + output,
  };
}

function keep(
  { stored }: Exchange,
  request: ResponsesRequest,
  response: ReturnType<typeof finished>,
  answer: Answer,
): void {
  if (!request.store) return;
  const messages = [...request.messages, { role: 'assistant', text: answer.text }];
  stored.put({ id: response.id, response, inputItems: request.inputItems, messages });
}
