import type { Exchange } from '../http/exchange.ts';
import { composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import { newId } from '../shared/ids.ts';
import { serverError } from '../shared/vendorError.ts';
import { chargeWhole, generate, generationTime, openBill, thinkingTime } from './generation.ts';
import {
  begin,
  finished,
  outputItem,
  pending,
  type ResponseBody,
  toolItems,
  usageOf,
} from './responsesBody.ts';
import { parseResponsesRequest, type ResponsesRequest } from './responsesRequest.ts';

/** `POST /v1/responses`. */
export async function responses(exchange: Exchange): Promise<void> {
  const { body, stored, behaviour, traits } = exchange;
  const request = parseResponsesRequest(body, stored, traits);
  const modelOutput = composeOutput(request, behaviour, traits);
  await (request.stream
    ? sendStream(exchange, request, modelOutput)
    : sendWhole(exchange, request, modelOutput));
}

/** `POST /v1/responses/input_tokens`. */
export async function inputTokens({ body, stored, behaviour, traits, reply }: Exchange): Promise<void> {
  const request = parseResponsesRequest(body, stored, traits);
  const { inputTokens: tokens } = composeOutput(request, behaviour);
  await reply.json(200, { object: 'response.input_tokens', input_tokens: tokens });
}

/** `POST /v1/responses/compact`: the user's messages, and one sealed item for all else. No field limits how long it gets. */
export async function compact(exchange: Exchange): Promise<void> {
  const { body, stored, behaviour, traits, reply } = exchange;
  const parsed = parseResponsesRequest(body, stored, traits);
  const request = { ...parsed, stream: false, background: false, maxOutputTokens: undefined };
  const modelOutput = composeOutput(request, behaviour, traits);
  const kept = request.messages.filter(({ role }) => role === 'user');
  const compaction = {
    id: newId('resp_'),
    object: 'response.compaction',
    created_at: Math.floor(Date.now() / 1000),
    output: [
      ...kept.map(({ text }) => ({
        id: newId('msg_'),
        type: 'message',
        status: 'completed',
        role: 'user',
        content: [{ type: 'input_text', text }],
      })),
      {
        id: newId('cmp_'),
        type: 'compaction',
        encrypted_content: Buffer.from(modelOutput.text).toString('base64'),
      },
    ],
    usage: usageOf(request, modelOutput, behaviour),
  };
  const entry = openBill(exchange, request, modelOutput);
  chargeWhole(entry, request, modelOutput);
  await generationTime(exchange);
  await complete(entry, () => reply.json(200, compaction));
}

async function sendWhole(
  exchange: Exchange,
  request: ResponsesRequest,
  modelOutput: ModelOutput,
): Promise<void> {
  const { behaviour } = exchange;
  const begun = begin(request, modelOutput);
  const item = outputItem(request, modelOutput, 'completed');
  const response = finished(begun, item, request, modelOutput, behaviour);
  const entry = openBill(exchange, request, modelOutput);
  chargeWhole(entry, request, modelOutput);
  keep(exchange, request, { begun, response, modelOutput });
  const shown = request.background ? pending(begun, 'queued', behaviour) : response;
  if (!request.background) await generationTime(exchange);
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
  const begun = begin(request, modelOutput);
  const item = outputItem(request, modelOutput, 'in_progress');
  const tools = toolItems(modelOutput);
  const outputIndex = tools.length;
  const where = { item_id: item.id, output_index: outputIndex };
  const inPart = { ...where, content_index: 0 };
  const emptyPart = { type: 'output_text', text: '', annotations: [], logprobs: [] };

  const entry = openBill(exchange, request, modelOutput);
  await thinkingTime(exchange, entry, request, modelOutput);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  await send('response.created', { response: begun });
  await send('response.in_progress', { response: begun });
  for (const [output_index, tool] of tools.entries()) {
    await send('response.output_item.added', { output_index, item: { ...tool, status: 'in_progress' } });
    await send('response.output_item.done', { output_index, item: tool });
  }
  const isCall = modelOutput.toolName !== undefined;
  const part = item.type === 'custom_tool_call' ? 'custom_tool_call_input' : 'function_call_arguments';
  const argument = item.type === 'custom_tool_call' ? 'input' : 'arguments';
  const opened = isCall ? { ...item, [argument]: '' } : { ...item, content: [] };
  await send('response.output_item.added', { output_index: outputIndex, item: opened });
  if (!isCall) await send('response.content_part.added', { ...inPart, part: emptyPart });
  const isWhole = await generate(exchange, entry, request, modelOutput, (delta) =>
    isCall
      ? send(`response.${part}.delta`, { ...where, delta })
      : send('response.output_text.delta', { ...inPart, delta, logprobs: [] }),
  );
  if (!isWhole) {
    const { code, message } = serverError();
    await send('error', { code: code ?? 'server_error', message, param: null });
    await reply.end();
    return;
  }
  const done = { ...outputItem(request, modelOutput, 'completed'), id: item.id };
  if (isCall) await send(`response.${part}.done`, { ...where, [argument]: modelOutput.text });
  else {
    await send('response.output_text.done', { ...inPart, text: modelOutput.text, logprobs: [] });
    await send('response.content_part.done', { ...inPart, part: { ...emptyPart, text: modelOutput.text } });
  }
  await send('response.output_item.done', { output_index: outputIndex, item: done });
  const response = finished(begun, done, request, modelOutput, behaviour);
  keep(exchange, request, { begun, response, modelOutput });
  await complete(entry, async () => {
    const type = modelOutput.cut ? 'response.incomplete' : 'response.completed';
    await reply.writeEvent(type, { type, sequence_number: sequence, response });
    await reply.end();
  });
}

/** Stores the response; a background one is finished only after its time. */
function keep(
  { stored, behaviour }: Exchange,
  request: ResponsesRequest,
  { begun, response, modelOutput }: { begun: ResponseBody; response: ResponseBody; modelOutput: ModelOutput },
): void {
  if (!request.store) return;
  const messages = [...request.messages, { role: 'assistant', text: modelOutput.text }];
  const now = Date.now();
  stored.put({
    id: response.id,
    response,
    inputItems: request.inputItems,
    messages,
    readyAt: request.background ? now + behaviour.backgroundMs : now,
    queued: pending(begun, 'queued', behaviour),
    inProgress: pending(begun, 'in_progress', behaviour),
    startsAt: now + behaviour.backgroundMs / 2,
  });
}
