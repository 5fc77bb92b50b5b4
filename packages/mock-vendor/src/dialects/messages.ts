import { checkMessagesHistory } from '../history/messagesHistory.ts';
import type { Signer } from '../history/signer.ts';
import type { Exchange } from '../http/exchange.ts';
import { callOf, composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import { newId } from '../shared/ids.ts';
import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import { textOfTokens } from '../shared/tokens.ts';
import { anthropicErrorBody, serverError } from '../shared/vendorError.ts';
import { messagesCitation } from './citedSource.ts';
import { chargeWhole, generate, generationTime, openBill, thinkingTime } from './generation.ts';
import { type MessagesRequest, parseMessagesRequest } from './messagesRequest.ts';
import { finalUsage, usageOf, wholeUsage } from './messagesUsage.ts';

/** `POST /v1/messages`. */
export async function messages(exchange: Exchange): Promise<void> {
  const { body, behaviour, traits, signer } = exchange;
  const request = parseMessagesRequest(body, { needsMaxTokens: true }, traits);
  if (signer) checkMessagesHistory(request.body as JsonRecord, signer);
  const modelOutput = composeOutput(request, behaviour, traits);
  await (request.stream
    ? sendStream(exchange, request, modelOutput)
    : sendWhole(exchange, request, modelOutput));
}

/** `POST /v1/messages/count_tokens`. */
export async function countTokens({ body, behaviour, traits, reply }: Exchange): Promise<void> {
  const request = parseMessagesRequest(body, { needsMaxTokens: false }, traits);
  await reply.json(200, { input_tokens: composeOutput(request, behaviour).inputTokens });
}

async function sendWhole(
  exchange: Exchange,
  request: MessagesRequest,
  modelOutput: ModelOutput,
): Promise<void> {
  const usage = wholeUsage(modelOutput, exchange.behaviour);
  const thought = shownReasoning(modelOutput, exchange.behaviour);
  const thinking = thought === '' ? [] : [thinkingBlock(thought, exchange.signer)];
  const message = {
    ...head(modelOutput),
    content: [...thinking, ...toolBlocks(modelOutput), ...contentBlocks(modelOutput, exchange.behaviour)],
    stop_reason: stopReason(modelOutput),
    stop_sequence: null,
    ...containerOf(request, modelOutput),
    ...(usage && { usage }),
  };
  const entry = openBill(exchange, request, modelOutput);
  chargeWhole(entry, request, modelOutput);
  await generationTime(exchange);
  await complete(entry, () => exchange.reply.json(200, message));
}

async function sendStream(
  exchange: Exchange,
  request: MessagesRequest,
  modelOutput: ModelOutput,
): Promise<void> {
  const { reply, behaviour, signer } = exchange;
  const send = (type: string, fields: object = {}) =>
    reply.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  // Like the real vendor: the first event has the usage so far, the last event the total.
  const start = usageOf(modelOutput, behaviour, 1);

  const entry = openBill(exchange, request, modelOutput);
  await thinkingTime(exchange, entry, request, modelOutput);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  const empty = { content: [], stop_reason: null, stop_sequence: null, ...(start && { usage: start }) };
  await send('message_start', { message: { ...head(modelOutput), ...empty } });
  await send('ping');
  let index = 0;
  const thinking = shownReasoning(modelOutput, behaviour);
  if (thinking !== '') {
    await send('content_block_start', { index, content_block: thinkingBlock('', signer) });
    await send('content_block_delta', { index, delta: { type: 'thinking_delta', thinking } });
    const signature = signatureOf(thinking, signer);
    await send('content_block_delta', { index, delta: { type: 'signature_delta', signature } });
    await send('content_block_stop', { index });
    index += 1;
  }
  for (const block of toolBlocks(modelOutput)) {
    await send('content_block_start', { index, content_block: block });
    await send('content_block_stop', { index });
    index += 1;
  }
  await send('content_block_start', { index, content_block: contentBlock(modelOutput, '') });
  let call = 0;
  const isWhole = await generate(exchange, entry, request, modelOutput, async (piece, _choice, at) => {
    if (callOf(modelOutput, at) !== call) {
      await send('content_block_stop', { index });
      call += 1;
      index += 1;
      await send('content_block_start', { index, content_block: contentBlock(modelOutput, '') });
    }
    await send('content_block_delta', { index, delta: pieceDelta(modelOutput, piece) });
  });
  if (!isWhole) {
    await reply.write(`event: error\ndata: ${JSON.stringify(anthropicErrorBody(serverError()))}\n\n`);
    await reply.end();
    return;
  }
  if (behaviour.cites !== undefined && modelOutput.toolName === undefined) {
    const delta = { type: 'citations_delta', citation: messagesCitation(behaviour.cites) };
    await send('content_block_delta', { index, delta });
  }
  await send('content_block_stop', { index });
  const end = finalUsage(modelOutput, behaviour);
  await reply.writeEvent('message_delta', {
    type: 'message_delta',
    delta: {
      stop_reason: stopReason(modelOutput),
      stop_sequence: null,
      ...containerOf(request, modelOutput),
    },
    ...(end && { usage: end }),
  });
  await complete(entry, async () => {
    await send('message_stop');
    await reply.end();
  });
}

function head({ serving }: ModelOutput) {
  return { id: newId('msg_'), type: 'message', role: 'assistant', model: serving.model };
}

/** Where code ran: in the container that the request names, or a new one. */
function containerOf({ body }: MessagesRequest, { serving }: ModelOutput) {
  const { container } = body as JsonRecord;
  const named = isRecord(container) ? container.id : container;
  if (typeof named !== 'string' && !serving.toolUses.code_execution) return {};
  const id = typeof named === 'string' ? named : newId('container_');
  return { container: { id, expires_at: new Date(Date.now() + 3_600_000).toISOString() } };
}

/** The reasoning as text; empty if there is none, or the vendor does not show it. */
function shownReasoning({ reasoningTokens }: ModelOutput, { hidesReasoning }: Behaviour): string {
  return hidesReasoning ? '' : textOfTokens(reasoningTokens);
}

/** The uses of server-side tools. */
function toolBlocks({ serving }: ModelOutput) {
  return Object.entries(serving.toolUses).flatMap(([name, uses]) =>
    Array.from({ length: uses }, () => ({
      type: 'server_tool_use',
      id: newId('srvtoolu_'),
      name,
      input: {},
    })),
  );
}

function thinkingBlock(thinking: string, signer: Signer | undefined) {
  return { type: 'thinking', thinking, signature: thinking === '' ? '' : signatureOf(thinking, signer) };
}

function signatureOf(thinking: string, signer: Signer | undefined): string {
  return signer?.sign(thinking) ?? 'bW9jaw==';
}

function contentBlocks(modelOutput: ModelOutput, { cites }: Behaviour) {
  const cited = cites !== undefined && modelOutput.toolName === undefined;
  return Array.from({ length: modelOutput.calls }, () => ({
    ...contentBlock(modelOutput, modelOutput.text),
    ...(cited && { citations: [messagesCitation(cites)] }),
  }));
}

function contentBlock({ toolName }: ModelOutput, text: string) {
  if (toolName === undefined) return { type: 'text', text };
  const input: unknown = text === '' ? {} : jsonOrEmpty(text);
  return { type: 'tool_use', id: newId('toolu_'), name: toolName, input };
}

/** The arguments may be truncated by a limit. */
function jsonOrEmpty(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function pieceDelta({ toolName }: ModelOutput, piece: string) {
  return toolName === undefined
    ? { type: 'text_delta', text: piece }
    : { type: 'input_json_delta', partial_json: piece };
}

function stopReason(modelOutput: ModelOutput): 'end_turn' | 'max_tokens' | 'tool_use' {
  if (modelOutput.cut) return 'max_tokens';
  return modelOutput.toolName === undefined ? 'end_turn' : 'tool_use';
}
