import type { OutputSize } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Operation } from './operation.ts';
import type { Edit, RequestBody } from './requestBody.ts';
import { JsonScanError, type Span, scanObject } from './scanJson.ts';

/** A request to an operation as it came, with what admission and forwarding have to know of it. */
export interface GenerationRequest {
  readonly operation: Operation;
  readonly body: RequestBody;
  readonly model: string;
  readonly stream: boolean;
  /** The caller asked for the chunk that reports usage, so it gets to see it. */
  readonly wantsUsage: boolean;
  /** The vendor keeps the answer. */
  readonly isStored: boolean;
  /** How long the answer of a response in the background may get; undefined where one is waited for. */
  readonly backgroundOutputTokens: number | undefined;
  /** How much may be written; undefined where the model writes nothing. */
  readonly output: OutputSize | undefined;
  /** The stored response that this one goes on from. */
  readonly previousResponseId: string | undefined;
  /** Calls with the same one share a beginning that the vendor may have cached. */
  readonly promptCacheKey: string | undefined;
  readonly spans: ReadonlyMap<string, Span>;
  /** Right behind the brace that opens it. */
  readonly start: Span;
  /** The wish to be told the usage, where the body lacks it. */
  readonly usageEdit: Edit | undefined;
  /** What the vendor may add to the input by itself; only asked for where nothing may cost more than is told beforehand. */
  readonly addedInputTokens?: number;
  /** A limit that this service sets to the answer's length, and the field that the upstream takes it in. */
  readonly limit?: { readonly field: string; readonly tokens: number };
}

/** More than any vendor takes. */
export const MAX_CHOICES = 128;
const STREAM_OPTIONS_FIELDS = new Set(['include_usage']);

/** Reads a body; what is wrong with it is a 400 that says what and where. */
export function readGenerationRequest(operation: Operation, body: RequestBody): GenerationRequest {
  return body.read((bytes) => ({ ...readBytes(operation, bytes), operation, body }));
}

function readBytes(operation: Operation, body: Buffer): Omit<GenerationRequest, 'operation' | 'body'> {
  const spans = scanFields(body, operation.fields);
  const model = valueAt(body, spans.get('model'));
  if (typeof model !== 'string') {
    const problem = model === undefined ? 'is required' : 'must be a string';
    throw new AppError('invalid_request', 'invalid_model', `model ${problem}, such as "openai/gpt-5.4".`, {
      param: 'model',
    });
  }
  const options = spans.get('stream_options');
  const background = backgroundOutputTokens(body, spans);
  const stream = valueAt(body, spans.get('stream')) === true;
  const wantsUsage = isObject(body, options) && valueAt(body, includeUsage(body, options)) === true;
  return {
    model,
    stream,
    wantsUsage,
    isStored: operation.isStored && valueAt(body, spans.get('store')) !== false,
    backgroundOutputTokens: background,
    output: outputSize(operation, body, spans, background),
    previousResponseId: textAt(body, spans.get('previous_response_id')),
    promptCacheKey: textAt(body, spans.get('prompt_cache_key')),
    spans,
    start: afterBrace(body, 0),
    usageEdit: operation.needsIncludeUsage && stream && !wantsUsage ? askForUsage(body, options) : undefined,
  };
}

/** Nobody tells what a response in the background came to, so it has to say how long it may get: that is charged. */
function backgroundOutputTokens(body: Buffer, spans: ReadonlyMap<string, Span>): number | undefined {
  if (valueAt(body, spans.get('background')) !== true) return undefined;
  const limit = countAt(body, spans.get('max_output_tokens'));
  if (limit !== undefined) return limit;
  throw new AppError(
    'invalid_request',
    'max_output_tokens_required',
    'A response in the background is charged by its max_output_tokens: send that field, or leave background out.',
    { param: 'max_output_tokens' },
  );
}

/** What a body says of its answer's length. What is no number of tokens there is for the vendor to judge. */
function outputSize(
  { outputLimits }: Operation,
  body: Buffer,
  spans: ReadonlyMap<string, Span>,
  background: number | undefined,
): OutputSize | undefined {
  if (!outputLimits) return undefined;
  let maxTokens: number | undefined;
  for (const field of outputLimits) {
    const limit = countAt(body, spans.get(field));
    if (limit !== undefined && limit > (maxTokens ?? 0)) maxTokens = limit;
  }
  return {
    maxTokens,
    choices: Math.min(countAt(body, spans.get('n')) ?? 1, MAX_CHOICES),
    // It is charged for whole.
    usualTokens: background,
  };
}

/**
 * The body for the vendor: byte for byte the caller's, but for the model's name, and, where it streams and would not be
 * told the usage otherwise, the wish for that; and the limit of the answer's length, where this service sets one.
 */
export function upstreamBody(
  { body, spans, start, usageEdit, limit }: GenerationRequest,
  upstreamModel: string,
): RequestBody {
  const edits: Edit[] = [];
  const model = spans.get('model');
  if (model) edits.push({ span: model, text: JSON.stringify(upstreamModel) });
  if (usageEdit) edits.push(usageEdit);
  if (limit) edits.push(limitOutput(spans, start, limit));
  return body.withEdits(edits);
}

function limitOutput(
  spans: ReadonlyMap<string, Span>,
  start: Span,
  { field, tokens }: NonNullable<GenerationRequest['limit']>,
): Edit {
  const given = spans.get(field);
  return given ? { span: given, text: String(tokens) } : { span: start, text: `"${field}":${tokens},` };
}

function askForUsage(body: Buffer, options: Span | undefined): Edit {
  if (!options) {
    // Right behind the opening brace of an object that has a member already: `model`.
    return { span: afterBrace(body, 0), text: '"stream_options":{"include_usage":true},' };
  }
  if (!isObject(body, options)) return { span: options, text: '{"include_usage":true}' };
  const given = includeUsage(body, options);
  if (given) return { span: given, text: 'true' };
  const isEmpty = /^\{\s*\}$/.test(body.toString('latin1', options.start, options.end));
  return { span: afterBrace(body, options.start), text: `"include_usage":true${isEmpty ? '' : ','}` };
}

/** Where `stream_options.include_usage` has its value. */
function includeUsage(body: Buffer, options: Span): Span | undefined {
  const inner = scanFields(body.subarray(options.start, options.end), STREAM_OPTIONS_FIELDS).get(
    'include_usage',
  );
  return inner && { start: options.start + inner.start, end: options.start + inner.end };
}

/** Where top-level fields have their values; what is wrong with the body is a 400 that says what and where. */
export function scanFields(bytes: Buffer, fields: ReadonlySet<string>): ReadonlyMap<string, Span> {
  try {
    return scanObject(bytes, fields);
  } catch (error) {
    if (!(error instanceof JsonScanError)) throw error;
    if (error.duplicate) {
      throw new AppError('invalid_request', 'duplicate_field', `${error.message}: send it once.`, {
        param: error.duplicate,
      });
    }
    const message = `The body is not a JSON object: ${error.message}.`;
    throw new AppError('invalid_request', 'malformed_json', message);
  }
}

function afterBrace(body: Buffer, from: number): Span {
  const at = body.indexOf('{', from) + 1;
  return { start: at, end: at };
}

function isObject(body: Buffer, span: Span | undefined): span is Span {
  return span !== undefined && body[span.start] === 0x7b;
}

/** A whole number above zero; undefined for anything else. */
function countAt(body: Buffer, span: Span | undefined): number | undefined {
  const value = valueAt(body, span);
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : undefined;
}

function textAt(body: Buffer, span: Span | undefined): string | undefined {
  const value = valueAt(body, span);
  return typeof value === 'string' ? value : undefined;
}

function valueAt(body: Buffer, span: Span | undefined): unknown {
  if (!span) return undefined;
  const text = body.toString('utf8', span.start, span.end);
  // Nearly all texts are what they look like.
  return text.startsWith('"') && !text.includes('\\') ? text.slice(1, -1) : JSON.parse(text);
}
