import type { Exchange } from '../http/exchange.ts';
import { composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import { newId } from '../shared/ids.ts';
import { serverError } from '../shared/vendorError.ts';
import { chargeReasoning, chargeWhole, generate, openBill } from './generation.ts';
import { parseResponsesRequest, type ResponsesRequest } from './responsesRequest.ts';

/** `POST /v1/responses`. */
export async function responses(exchange: Exchange): Promise<void> {
  const request = parseResponsesRequest(exchange.body, exchange.stored);
  const modelOutput = composeOutput(request, exchange.behaviour);
  await (request.stream
    ? sendStream(exchange, request, modelOutput)
    : sendWhole(exchange, request, modelOutput));
}

async function sendWhole(
  exchange: Exchange,
  request: ResponsesRequest,
  modelOutput: ModelOutput,
): Promise<void> {
  const begun = begin(request);
  const response = finished(begun, outputItem(modelOutput, 'completed'), modelOutput, exchange.behaviour);
  const entry = openBill(exchange, request, modelOutput);
  chargeWhole(entry, request, modelOutput);
  keep(exchange, request, response, modelOutput);
  const shown = request.background ? { ...begun, status: 'queued' } : response;
  await complete(entry, () => exchange.reply.json(200, shown));
}

async function sendStream(
  exchange: Exchange,
  request: ResponsesRequest,
  modelOutput: ModelOutput,
): Promise<void> {
  const { reply, behaviour } = exchange;
  let sequence = 0;
  const send = (type: string, fields: object) => {
    const event = { type, sequence_number: sequence, ...fields };
    sequence += 1;
    return reply.write(`event: ${type}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  const begun = begin(request);
  const item = outputItem(modelOutput, 'in_progress');
  const where = { item_id: item.id, output_index: 0 };
  const inPart = { ...where, content_index: 0 };
  const emptyPart = { type: 'output_text', text: '', annotations: [], logprobs: [] };

  const entry = openBill(exchange, request, modelOutput);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  chargeReasoning(entry, request, modelOutput);
  await send('response.created', { response: begun });
  await send('response.in_progress', { response: begun });
  const isCall = modelOutput.toolName !== undefined;
  const opened = isCall ? { ...item, arguments: '' } : { ...item, content: [] };
  await send('response.output_item.added', { output_index: 0, item: opened });
  if (!isCall) await send('response.content_part.added', { ...inPart, part: emptyPart });
  const isWhole = await generate(exchange, entry, request, modelOutput, (delta) =>
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
  const done = { ...outputItem(modelOutput, 'completed'), id: item.id };
  if (isCall) await send('response.function_call_arguments.done', { ...where, arguments: modelOutput.text });
  else {
    await send('response.output_text.done', { ...inPart, text: modelOutput.text, logprobs: [] });
    await send('response.content_part.done', { ...inPart, part: { ...emptyPart, text: modelOutput.text } });
  }
  await send('response.output_item.done', { output_index: 0, item: done });
  const response = finished(begun, done, modelOutput, behaviour);
  keep(exchange, request, response, modelOutput);
  await complete(entry, async () => {
    await send(modelOutput.cut ? 'response.incomplete' : 'response.completed', { response });
    await reply.end();
  });
}

/** A response without output yet. */
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

function finished(
  begun: ReturnType<typeof begin>,
  item: object,
  modelOutput: ModelOutput,
  behaviour: Behaviour,
) {
  return {
    ...begun,
    status: modelOutput.cut ? 'incomplete' : 'completed',
    incomplete_details: modelOutput.cut ? { reason: 'max_output_tokens' } : null,
    output: [item],
    usage: usageOf(modelOutput, behaviour),
  };
}

function outputItem(modelOutput: ModelOutput, status: string) {
  if (modelOutput.toolName !== undefined) {
    return {
      id: newId('fc_'),
      type: 'function_call',
      status,
      call_id: newId('call_'),
      name: modelOutput.toolName,
      arguments: modelOutput.text,
    };
  }
  const part = { type: 'output_text', text: modelOutput.text, annotations: [], logprobs: [] };
  return { id: newId('msg_'), type: 'message', status, role: 'assistant', content: [part] };
}

function usageOf(modelOutput: ModelOutput, { usage }: Behaviour) {
  if (usage === 'none') return null;
  const share = usage === 'zero' ? 0 : 1;
  const input = share * modelOutput.inputTokens;
  const output = share * (modelOutput.textTokens + modelOutput.reasoningTokens);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: share * modelOutput.cachedTokens },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: share * modelOutput.reasoningTokens },
    total_tokens: input + output,
  };
}

function keep(
  { stored }: Exchange,
  request: ResponsesRequest,
  response: ReturnType<typeof finished>,
  modelOutput: ModelOutput,
): void {
  if (!request.store) return;
  const messages = [...request.messages, { role: 'assistant', text: modelOutput.text }];
  stored.put({ id: response.id, response, inputItems: request.inputItems, messages });
}
