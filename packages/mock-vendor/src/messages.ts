import { type Answer, composeAnswer } from './answer.ts';
import type { Behaviour } from './behaviour.ts';
import { complete } from './bill.ts';
import type { Exchange } from './exchange.ts';
import { chargeReasoning, chargeWhole, generate, openBill } from './generation.ts';
import { newId } from './ids.ts';
import { type MessagesRequest, parseMessagesRequest } from './messagesRequest.ts';
import { textOfTokens } from './tokens.ts';
import { anthropicErrorBody, serverError } from './vendorError.ts';

/** `POST /v1/messages`. */
export async function messages(exchange: Exchange): Promise<void> {
  const request = parseMessagesRequest(exchange.body, { needsMaxTokens: true });
  const answer = composeAnswer(request, exchange.behaviour);
  await (request.stream ? sendStream(exchange, request, answer) : sendWhole(exchange, request, answer));
}

/** `POST /v1/messages/count_tokens`. */
export async function countTokens({ body, behaviour, reply }: Exchange): Promise<void> {
  const request = parseMessagesRequest(body, { needsMaxTokens: false });
  await reply.json(200, { input_tokens: composeAnswer(request, behaviour).inputTokens });
}

async function sendWhole(exchange: Exchange, request: MessagesRequest, answer: Answer): Promise<void> {
  const usage = usageOf(answer, exchange.behaviour, answer.reasoningTokens + answer.textTokens);
  const thinking = answer.reasoningTokens > 0 ? [thinkingBlock(textOfTokens(answer.reasoningTokens))] : [];
  const message = {
    ...head(request.model),
    content: [...thinking, contentBlock(answer, answer.text)],
    stop_reason: stopReason(answer),
    stop_sequence: null,
    ...(usage && { usage }),
  };
  const entry = openBill(exchange, request, answer);
  chargeWhole(entry, request, answer);
  await complete(entry, () => exchange.reply.json(200, message));
}

async function sendStream(exchange: Exchange, request: MessagesRequest, answer: Answer): Promise<void> {
  const { reply, behaviour } = exchange;
  const send = (type: string, fields: object = {}) =>
    reply.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  // What it begins with is told at once, as by the real one; the last report counts up to the whole.
  const start = usageOf(answer, behaviour, 1);

  const entry = openBill(exchange, request, answer);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  chargeReasoning(entry, request, answer);
  const empty = { content: [], stop_reason: null, stop_sequence: null, ...(start && { usage: start }) };
  await send('message_start', { message: { ...head(request.model), ...empty } });
  await send('ping');
  let index = 0;
  if (answer.reasoningTokens > 0) {
    const thinking = textOfTokens(answer.reasoningTokens);
    await send('content_block_start', { index, content_block: thinkingBlock('') });
    await send('content_block_delta', { index, delta: { type: 'thinking_delta', thinking } });
    await send('content_block_delta', { index, delta: { type: 'signature_delta', signature: 'bW9jaw==' } });
    await send('content_block_stop', { index });
    index += 1;
  }
  await send('content_block_start', { index, content_block: contentBlock(answer, '') });
  const isWhole = await generate(exchange, entry, request, answer, (piece) =>
    send('content_block_delta', { index, delta: pieceDelta(answer, piece) }),
  );
  if (!isWhole) {
    await reply.write(`event: error\ndata: ${JSON.stringify(anthropicErrorBody(serverError()))}\n\n`);
    await reply.end();
    return;
  }
  await send('content_block_stop', { index });
  const end = finalUsage(answer, behaviour);
  await send('message_delta', {
    delta: { stop_reason: stopReason(answer), stop_sequence: null },
    ...(end && { usage: end }),
  });
  await complete(entry, async () => {
    await send('message_stop');
    await reply.end();
  });
}

function head(model: string) {
  return { id: newId('msg_'), type: 'message', role: 'assistant', model };
}

function thinkingBlock(thinking: string) {
  return { type: 'thinking', thinking, signature: thinking === '' ? '' : 'bW9jaw==' };
}

function contentBlock({ toolName }: Answer, text: string) {
  if (toolName === undefined) return { type: 'text', text };
  const input: unknown = text === '' ? {} : jsonOrEmpty(text);
  return { type: 'tool_use', id: newId('toolu_'), name: toolName, input };
}

/** A limit may have cut the arguments. */
function jsonOrEmpty(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function pieceDelta({ toolName }: Answer, piece: string) {
  return toolName === undefined
    ? { type: 'text_delta', text: piece }
    : { type: 'input_json_delta', partial_json: piece };
}

function stopReason(answer: Answer): 'end_turn' | 'max_tokens' | 'tool_use' {
  if (answer.cut) return 'max_tokens';
  return answer.toolName === undefined ? 'end_turn' : 'tool_use';
}

function usageOf(answer: Answer, { usage }: Behaviour, outputTokens: number) {
  if (usage === 'none') return undefined;
  const share = usage === 'zero' ? 0 : 1;
  const written = answer.cacheWriteTokens + answer.cacheWrite1hTokens;
  return {
    input_tokens: share * (answer.inputTokens - answer.cachedTokens - written),
    cache_creation_input_tokens: share * written,
    cache_read_input_tokens: share * answer.cachedTokens,
    cache_creation: {
      ephemeral_5m_input_tokens: share * answer.cacheWriteTokens,
      ephemeral_1h_input_tokens: share * answer.cacheWrite1hTokens,
    },
    output_tokens: share * outputTokens,
    service_tier: 'standard',
  };
}

/** The last report of a stream has no division of what was written by its time to live. */
function finalUsage(answer: Answer, behaviour: Behaviour) {
  const usage = usageOf(answer, behaviour, answer.reasoningTokens + answer.textTokens);
  if (!usage) return undefined;
  const { cache_creation: _, service_tier: __, ...told } = usage;
  return told;
}
