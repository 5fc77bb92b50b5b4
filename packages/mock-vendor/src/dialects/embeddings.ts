import { createHash } from 'node:crypto';
import type { Exchange } from '../http/exchange.ts';
import { complete, type OpenEntry } from '../records/bill.ts';
import { emptyLine } from '../shared/billLine.ts';
import { assertKnown, EMBEDDINGS_FIELDS } from '../shared/knownFields.ts';
import { optionalInteger, parseModel, parseObject } from '../shared/parameters.ts';
import { tokensOfText } from '../shared/tokens.ts';
import { assertSold, badRequest, invalidType, missingParameter } from '../shared/vendorError.ts';

export const DEFAULT_DIMENSIONS = 8;
export const MAX_DIMENSIONS = 4096;
const MAX_INPUTS = 2048;
const HASH_BYTES = 32;

/** `POST /v1/embeddings`. */
export async function embeddings(exchange: Exchange): Promise<void> {
  const { body, behaviour, traits, reply } = exchange;
  const request = parseObject(body, traits);
  if (traits.strict) assertKnown(request, EMBEDDINGS_FIELDS);
  const model = parseModel(request);
  assertSold(model, traits.prices);
  const inputs = parseInputs(request.input);
  const format = request.encoding_format ?? 'float';
  if (format !== 'float' && format !== 'base64') throw invalidType('encoding_format', "'float' or 'base64'");
  const dimensions = optionalInteger(request, 'dimensions', MAX_DIMENSIONS) ?? DEFAULT_DIMENSIONS;

  const inputTokens = behaviour.inputTokens ?? inputs.reduce((sum, input) => sum + input.tokens, 0);
  const data = inputs.map(({ text }, index) => {
    const vector = vectorOf(text, dimensions);
    return { object: 'embedding', index, embedding: format === 'base64' ? base64(vector) : vector };
  });
  const shown = behaviour.usage === 'zero' ? 0 : inputTokens;
  const usage = { prompt_tokens: shown, total_tokens: shown };

  const entry = billEmbeddings(exchange, model, inputTokens);
  const list = { object: 'list', data, model, ...(behaviour.usage !== 'none' && { usage }) };
  await complete(entry, () => reply.json(200, list));
}

/** Charges a response that has no output. */
export function billEmbeddings(
  { bill, requestId, account }: Exchange,
  model: string,
  inputTokens: number,
): OpenEntry {
  return bill.open({
    ...emptyLine(model),
    requestId,
    account,
    inputTokens,
    reasoningTokens: 0,
    serviceTier: '',
    speed: '',
    geography: '',
    toolUses: {},
    extraLines: [],
    streamed: false,
  });
}

interface Input {
  /** What the vector is made of. */
  readonly text: string;
  readonly tokens: number;
}

/** A text, texts, token ids, or lists of token ids. */
function parseInputs(input: unknown): Input[] {
  if (input === undefined) throw missingParameter('input');
  const inputs = Array.isArray(input) && !isTokenIds(input) ? input : [input];
  if (inputs.length === 0 || inputs.length > MAX_INPUTS) {
    throw badRequest(`Invalid 'input': expected 1 to ${MAX_INPUTS} items.`, 'input');
  }
  return inputs.map((item: unknown) => {
    if (typeof item === 'string' && item !== '') return { text: item, tokens: tokensOfText(item) };
    if (isTokenIds(item)) return { text: item.join(' '), tokens: item.length };
    throw badRequest("'$.input' is invalid. Expected texts that are not empty, or lists of tokens.", 'input');
  });
}

function isTokenIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every(Number.isInteger);
}

/** The same text gives the same vector of length 1, in float32 as on the wire of base64. */
export function vectorOf(text: string, dimensions: number): number[] {
  const raw: number[] = [];
  for (let block = 0; raw.length < dimensions; block += 1) {
    const hash = createHash('sha256').update(`${block}:${text}`).digest();
    for (let at = 0; at < HASH_BYTES && raw.length < dimensions; at += 4) {
      raw.push(hash.readInt32LE(at) / 2 ** 31);
    }
  }
  const length = Math.hypot(...raw) || 1;
  return raw.map((value) => Math.fround(value / length));
}

function base64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((value, at) => {
    bytes.writeFloatLE(value, at * 4);
  });
  return bytes.toString('base64');
}
