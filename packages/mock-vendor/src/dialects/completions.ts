import type { Exchange } from '../http/exchange.ts';
import { NOTHING_ASKED } from '../model/conversation.ts';
import { composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import { newId } from '../shared/ids.ts';
import { assertKnown, COMPLETIONS_FIELDS } from '../shared/knownFields.ts';
import {
  type JsonRecord,
  optionalBoolean,
  optionalInteger,
  parseModel,
  parseObject,
} from '../shared/parameters.ts';
import { tokensOfText } from '../shared/tokens.ts';
import { badRequest, missingParameter, openaiErrorBody, serverError } from '../shared/vendorError.ts';
import { parseIncludeUsage } from './chatRequest.ts';
import { type Charged, chargeWhole, generate, generationTime, openBill } from './generation.ts';

const MAX_PROMPTS = 2_048;
const MAX_CHOICES = 128;
/** OpenAI's, where the request sets none. */
const DEFAULT_OUTPUT_TOKENS = 16;

interface Prompt {
  readonly text: string;
  readonly tokens: number;
}

interface CompletionRequest extends Charged {
  readonly body: JsonRecord;
  readonly prompts: readonly Prompt[];
  /** Per prompt; of the best of several, the others are billed too. */
  readonly shown: number;
  readonly candidates: number;
  readonly echo: boolean;
  readonly includeUsage: boolean;
}

/** `POST /v1/completions`. Every prompt gets the output of the first. */
export async function completions(exchange: Exchange): Promise<void> {
  const { behaviour, traits } = exchange;
  const request = parseRequest(exchange);
  const { prompts, body } = request;
  const inputTokens = prompts.reduce((sum, { tokens }) => sum + tokens, 0);
  const output = composeOutput(
    {
      model: parseModel(body),
      messages: [{ role: 'user', text: prompts[0]?.text ?? '' }],
      tools: [],
      toolChoice: 'none',
      choices: request.choices,
      maxOutputTokens: optionalInteger(body, 'max_tokens') ?? DEFAULT_OUTPUT_TOKENS,
      asked: NOTHING_ASKED,
      body,
    },
    { ...behaviour, inputTokens: behaviour.inputTokens ?? inputTokens },
    traits,
  );
  await (request.stream ? sendStream(exchange, request, output) : sendWhole(exchange, request, output));
}

function parseRequest({ body: bytes, traits }: Exchange): CompletionRequest {
  const body = parseObject(bytes, traits);
  if (traits.strict) assertKnown(body, COMPLETIONS_FIELDS);
  const prompts = parsePrompts(body.prompt);
  const shown = optionalInteger(body, 'n', MAX_CHOICES) ?? 1;
  const candidates = optionalInteger(body, 'best_of', MAX_CHOICES) ?? shown;
  const stream = optionalBoolean(body, 'stream') ?? false;
  if (candidates < shown) throw badRequest('best_of must be at least n.', 'best_of');
  if (stream && candidates > shown) throw badRequest('A stream has no best_of.', 'best_of');
  return {
    body,
    prompts,
    shown,
    candidates,
    choices: prompts.length * candidates,
    stream,
    echo: optionalBoolean(body, 'echo') ?? false,
    includeUsage: parseIncludeUsage(body.stream_options, stream),
  };
}

/** A text, texts, token numbers, or lists of token numbers. */
function parsePrompts(prompt: unknown): Prompt[] {
  if (prompt === undefined || prompt === null) throw missingParameter('prompt');
  const prompts = Array.isArray(prompt) && !isTokens(prompt) ? prompt : [prompt];
  if (prompts.length === 0 || prompts.length > MAX_PROMPTS) throw badRequest("Invalid 'prompt'.", 'prompt');
  return prompts.map((one: unknown) => {
    if (typeof one === 'string') return { text: one, tokens: tokensOfText(one) };
    if (isTokens(one)) return { text: one.join(' '), tokens: one.length };
    throw badRequest("Invalid 'prompt'.", 'prompt');
  });
}

function isTokens(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every(Number.isInteger);
}

async function sendWhole(exchange: Exchange, request: CompletionRequest, output: ModelOutput): Promise<void> {
  const choices = request.prompts.flatMap(({ text }, at) =>
    Array.from({ length: request.shown }, (_, choice) => ({
      text: request.echo ? text + output.text : output.text,
      index: at * request.shown + choice,
      logprobs: null,
      finish_reason: output.cut ? 'length' : 'stop',
    })),
  );
  const usage = usageOf(exchange, request, output);
  const entry = openBill(exchange, request, output);
  chargeWhole(entry, request, output);
  await generationTime(exchange);
  await complete(entry, () =>
    exchange.reply.json(200, { ...head(output), choices, ...(usage && { usage }) }),
  );
}

async function sendStream(
  exchange: Exchange,
  request: CompletionRequest,
  output: ModelOutput,
): Promise<void> {
  const { reply } = exchange;
  const usage = request.includeUsage ? usageOf(exchange, request, output) : undefined;
  const common = { ...head(output), ...(usage && { usage: null }) };
  const send = (index: number, text: string, reason: string | null = null) => {
    const choices = [{ text, index, logprobs: null, finish_reason: reason }];
    return reply.write(`data: ${JSON.stringify({ ...common, choices })}\n\n`);
  };
  const entry = openBill(exchange, request, output);
  await generationTime(exchange);
  await reply.start(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  const isWhole = await generate(exchange, entry, request, output, (piece, index) => send(index, piece));
  if (!isWhole) {
    await reply.write(`data: ${JSON.stringify(openaiErrorBody(serverError()))}\n\n`);
    await reply.end();
    return;
  }
  for (let index = 0; index < request.choices; index++) {
    await send(index, '', output.cut ? 'length' : 'stop');
  }
  if (usage) await reply.writeEvent('', { ...common, choices: [], usage });
  await complete(entry, async () => {
    await reply.write('data: [DONE]\n\n');
    await reply.end();
  });
}

function head({ serving }: ModelOutput) {
  return {
    id: newId('cmpl-'),
    object: 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: serving.model,
  };
}

function usageOf({ behaviour }: Exchange, request: CompletionRequest, output: ModelOutput) {
  if (behaviour.usage === 'none') return undefined;
  const share = behaviour.usage === 'zero' ? 0 : 1;
  const input = share * output.inputTokens;
  const written = share * request.choices * (output.textTokens + output.reasoningTokens);
  return { prompt_tokens: input, completion_tokens: written, total_tokens: input + written };
}
