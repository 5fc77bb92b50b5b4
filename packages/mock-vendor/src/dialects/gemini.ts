import { checkGeminiHistory } from '../history/geminiHistory.ts';
import type { Signer } from '../history/signer.ts';
import type { Exchange } from '../http/exchange.ts';
import { composeOutput, type ModelOutput } from '../model/modelOutput.ts';
import { complete } from '../records/bill.ts';
import type { Behaviour } from '../shared/behaviour.ts';
import { newId } from '../shared/ids.ts';
import type { JsonRecord } from '../shared/parameters.ts';
import { textOfTokens } from '../shared/tokens.ts';
import { googleErrorBody, serverError } from '../shared/vendorError.ts';
import { groundingOf } from './citedSource.ts';
import { type GeminiRequest, modelInPath, parseCountRequest, parseGeminiRequest } from './geminiRequest.ts';
import { promptDetails, usageMetadata } from './geminiUsage.ts';
import { chargeWhole, generate, generationTime, openBill, thinkingTime } from './generation.ts';

/** `POST /v1beta/models/{model}:generateContent`. */
export async function generateContent(exchange: Exchange): Promise<void> {
  const { body, behaviour, traits, path, signer } = exchange;
  const request = parseGeminiRequest(body, modelInPath(path), false, traits);
  if (signer) checkGeminiHistory(request.body as JsonRecord, request.model, signer);
  const output = composeOutput(request, behaviour, traits);
  const entry = openBill(exchange, request, output);
  chargeWhole(entry, request, output);
  await generationTime(exchange);
  const head = headOf(output);
  const response = {
    candidates: eachChoice(request, (index) => ({
      content: {
        parts: [...thoughtParts(output, behaviour.hidesReasoning), ...lastParts(output, output.text, signer)],
        role: 'model',
      },
      finishReason: finishReason(output),
      index,
      ...grounding(output, behaviour),
    })),
    ...usageOf(request, output, exchange, output.textTokens),
    ...head,
  };
  await complete(entry, () => exchange.reply.json(200, response));
}

/** `POST /v1beta/models/{model}:streamGenerateContent`: events with `alt=sse`, else one JSON array. */
export async function streamGenerateContent(exchange: Exchange): Promise<void> {
  const { body, behaviour, traits, path, query, reply, signer } = exchange;
  const request = parseGeminiRequest(body, modelInPath(path), true, traits);
  if (signer) checkGeminiHistory(request.body as JsonRecord, request.model, signer);
  const output = composeOutput(request, behaviour, traits);
  const isEvents = new URLSearchParams(query).get('alt') === 'sse';
  const entry = openBill(exchange, request, output);
  await thinkingTime(exchange, entry, request, output);
  const type = isEvents ? 'text/event-stream' : 'application/json; charset=UTF-8';
  await reply.start(200, { 'content-type': type });
  const head = headOf(output);
  let sent = 0;
  const write = async (chunk: object) => {
    const separator = sent++ === 0 ? '[' : ',\r\n';
    await reply.write(
      isEvents ? `data: ${JSON.stringify(chunk)}\r\n\r\n` : separator + JSON.stringify(chunk),
    );
  };
  const send = (content: object, candidate: object, written: number) =>
    write({
      candidates: [{ content: { ...content, role: 'model' }, ...candidate }],
      // What was used so far, in each.
      ...usageOf(request, output, exchange, written),
      ...head,
    });

  for (const part of thoughtParts(output, behaviour.hidesReasoning))
    await send({ parts: [part] }, { index: 0 }, 0);
  const base = entry.outputTokens;
  const isWhole = await generate(exchange, entry, request, output, async (piece, index) => {
    // Calls come whole.
    if (output.toolName === undefined)
      await send({ parts: [{ text: piece }] }, { index }, (entry.outputTokens - base) / request.choices);
  });
  if (!isWhole) {
    await write(googleErrorBody(serverError()));
    return await reply.end();
  }
  const last = lastParts(output, output.toolName === undefined ? '' : output.text, signer);
  for (let index = 0; index < request.choices - 1; index++) {
    await send({ parts: last }, { finishReason: finishReason(output), index }, output.textTokens);
  }
  const chunk = {
    finishReason: finishReason(output),
    index: request.choices - 1,
    ...grounding(output, behaviour),
  };
  await send({ parts: last }, chunk, output.textTokens);
  await complete(entry, async () => {
    if (!isEvents) await reply.write(']');
    await reply.end();
  });
}

/** `POST /v1beta/models/{model}:countTokens`. */
export async function countContentTokens({ body, behaviour, traits, path, reply }: Exchange): Promise<void> {
  const output = composeOutput(parseCountRequest(body, modelInPath(path), traits), behaviour);
  await reply.json(200, { totalTokens: output.inputTokens, promptTokensDetails: promptDetails(output) });
}

function usageOf(request: GeminiRequest, output: ModelOutput, { behaviour }: Exchange, textTokens: number) {
  const usage = usageMetadata(request, output, behaviour, textTokens);
  return usage && { usageMetadata: usage };
}

function headOf({ serving }: ModelOutput) {
  return { modelVersion: serving.model, responseId: newId('gem') };
}

function eachChoice<Candidate>({ choices }: GeminiRequest, make: (index: number) => Candidate): Candidate[] {
  return Array.from({ length: choices }, (_, index) => make(index));
}

function thoughtParts({ reasoningTokens }: ModelOutput, areHidden: boolean): object[] {
  return areHidden || reasoningTokens === 0 ? [] : [{ text: textOfTokens(reasoningTokens), thought: true }];
}

/** Of calls at once, only the first is signed; without a call, what was thought is signed with the text. */
function lastParts(output: ModelOutput, text: string, signer: Signer | undefined): object[] {
  const { toolName, cut, calls, reasoningTokens } = output;
  if (toolName === undefined || cut) {
    return [{ text, ...(signer && reasoningTokens > 0 && { thoughtSignature: signer.sign(text) }) }];
  }
  const thoughtSignature = signer?.sign(text) ?? 'bW9jaw==';
  return Array.from({ length: calls }, (_, at) => ({
    functionCall: { name: toolName, args: JSON.parse(text), id: newId('call') },
    ...(at === 0 && { thoughtSignature }),
  }));
}

function finishReason({ cut }: ModelOutput): string {
  return cut ? 'MAX_TOKENS' : 'STOP';
}

/** What the vendor's searches leave in a candidate. */
function grounding({ serving, toolName, text }: ModelOutput, { cites }: Behaviour): object {
  const { google_search: searches = 0, google_maps: places = 0 } = serving.toolUses;
  const isCited = cites !== undefined && toolName === undefined;
  if (searches + places === 0 && !isCited) return {};
  return {
    groundingMetadata: {
      ...(isCited && groundingOf(text, cites)),
      ...(searches > 0 && { webSearchQueries: Array.from({ length: searches }, (_, at) => `query ${at}`) }),
      ...(places > 0 && { groundingChunks: [{ maps: { title: 'A place' } }] }),
    },
  };
}
