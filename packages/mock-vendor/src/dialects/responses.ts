import { checkResponsesHistory } from '../history/responsesHistory.ts';
import type { Exchange } from '../http/exchange.ts';
import { callOf, composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import { newId } from '../shared/ids.ts';
import type { JsonRecord } from '../shared/parameters.ts';
import { serverError } from '../shared/vendorError.ts';
import { chargeWhole, generate, generationTime, openBill, thinkingTime } from './generation.ts';
import {
  begin,
  finished,
  leadingItems,
  outputItems,
  pending,
  type ResponseBody,
  usageOf,
} from './responsesBody.ts';
import { ItemWriter, type Send, sendItem } from './responsesItems.ts';
import { containersIn, parseResponsesRequest, type ResponsesRequest } from './responsesRequest.ts';

/** `POST /v1/responses`. */
export async function responses(exchange: Exchange): Promise<void> {
  const { body, stored, behaviour, traits, signer } = exchange;
  const request = parseResponsesRequest(body, stored, traits);
  if (signer) checkResponsesHistory(request.body as JsonRecord, signer);
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
  const items = [
    ...leadingItems(request, modelOutput, exchange),
    ...outputItems(request, modelOutput, behaviour),
  ];
  const response = finished(begun, items, request, modelOutput, behaviour);
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
  const send: Send = (type, fields) => {
    const event = { type, sequence_number: sequence, ...fields };
    sequence += 1;
    return reply.write(`event: ${type}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  const begun = begin(request, modelOutput);
  const leading = leadingItems(request, modelOutput, exchange);
  const writers = outputItems(request, modelOutput, behaviour).map(
    (item, at) => new ItemWriter(item, leading.length + at, send),
  );

  const entry = openBill(exchange, request, modelOutput);
  await thinkingTime(exchange, entry, request, modelOutput);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  await send('response.created', { response: begun });
  await send('response.in_progress', { response: begun });
  for (const [at, item] of leading.entries()) await sendItem(item, at, send);
  await writers[0]?.open();
  let call = 0;
  const isWhole = await generate(exchange, entry, request, modelOutput, async (delta, _choice, at) => {
    if (callOf(modelOutput, at) !== call) {
      await writers[call]?.close();
      call += 1;
      await writers[call]?.open();
    }
    await writers[call]?.write(delta);
  });
  if (!isWhole) {
    const { code, message } = serverError();
    await send('error', { code: code ?? 'server_error', message, param: null });
    await reply.end();
    return;
  }
  await writers[call]?.close();
  const items = [...leading, ...writers.map(({ item }) => item)];
  const response = finished(begun, items, request, modelOutput, behaviour);
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
    containers: [...request.containers, ...containersIn(response.output)],
    readyAt: request.background ? now + behaviour.backgroundMs : now,
    queued: pending(begun, 'queued', behaviour),
    inProgress: pending(begun, 'in_progress', behaviour),
    startsAt: now + behaviour.backgroundMs / 2,
  });
}
