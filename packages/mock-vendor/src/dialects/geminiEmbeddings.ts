import type { Exchange } from '../http/exchange.ts';
import { complete } from '../records/bill.ts';
import { GOOGLE_BODIES, readGoogle } from '../shared/googleFields.ts';
import { isRecord, type JsonRecord, optionalInteger, parseObject } from '../shared/parameters.ts';
import { tokensOfText } from '../shared/tokens.ts';
import { assertSold, badRequest } from '../shared/vendorError.ts';
import { billEmbeddings, DEFAULT_DIMENSIONS, MAX_DIMENSIONS, vectorOf } from './embeddings.ts';
import { assertModel, modelInPath, textOf } from './geminiRequest.ts';

/** `POST /v1beta/models/{model}:embedContent`. */
export async function embedContent(exchange: Exchange): Promise<void> {
  const request = readGoogle(parseObject(exchange.body), GOOGLE_BODIES.embed, exchange.traits.strict);
  await embed(exchange, [request], ([embedding]) => ({ embedding }));
}

/** `POST /v1beta/models/{model}:batchEmbedContents`. */
export async function batchEmbedContents(exchange: Exchange): Promise<void> {
  const { requests } = readGoogle(
    parseObject(exchange.body),
    GOOGLE_BODIES.embedBatch,
    exchange.traits.strict,
  );
  if (!Array.isArray(requests) || requests.length === 0)
    throw badRequest('* BatchEmbedContentsRequest.requests: requests is not specified');
  await embed(exchange, requests.filter(isRecord), (embeddings) => ({ embeddings }));
}

async function embed(
  exchange: Exchange,
  requests: readonly JsonRecord[],
  answer: (embeddings: readonly object[]) => object,
): Promise<void> {
  const { path, traits, behaviour, reply } = exchange;
  const model = modelInPath(path);
  assertSold(model, traits.prices);
  const texts = requests.map((request) => {
    assertModel(request.model, model);
    if (!isRecord(request.content))
      throw badRequest('* EmbedContentRequest.content: content is not specified');
    return textOf(request.content);
  });
  const inputTokens = behaviour.inputTokens ?? texts.reduce((sum, text) => sum + tokensOfText(text), 0);
  const embeddings = requests.map((request, at) => {
    const dimensions = optionalInteger(request, 'outputDimensionality', MAX_DIMENSIONS) ?? DEFAULT_DIMENSIONS;
    return { values: vectorOf(texts[at] ?? '', dimensions) };
  });
  const entry = billEmbeddings(exchange, model, inputTokens);
  const usageMetadata = { promptTokenCount: behaviour.usage === 'zero' ? 0 : inputTokens };
  const body = { ...answer(embeddings), ...(behaviour.usage !== 'none' && { usageMetadata }) };
  await complete(entry, () => reply.json(200, body));
}
