import { envelopeCuts, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '@weighbridge/dialects';
import type { OutputSize, ToolUses } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { FieldReader, isDigit, ListItems, listOf, readCount } from './fieldReader.ts';
import { memberCuts } from './memberCuts.ts';
import type { Operation } from './operation.ts';
import type { Edit, RequestBody } from './requestBody.ts';
import { type Fields, flag, NUMBER } from './requestFields/field.ts';
import { MAX_CHOICES } from './requestFields/notes.ts';
import type { RemovedTool } from './requestFindings.ts';
import { JsonScanError, type ScanOptions, type Span, scanObject } from './scanJson.ts';
import { watchFor } from './storedObjects.ts';

/** A client's request to an operation, with the fields that admission and forwarding need. */
export interface GenerationRequest {
  readonly operation: Operation;
  readonly body: RequestBody;
  readonly model: string;
  readonly stream: boolean;
  /** The client asked for the chunk that reports usage. */
  readonly wantsUsage: boolean;
  /** The vendor stores the response. */
  readonly isStored: boolean;
  /** The request may name objects that the vendor stores; false: it names none. */
  readonly mayNameObjects: boolean;
  /** An earlier turn was translated, so the body may have what only another vendor understands, in envelopes of the service's own. */
  readonly mayHaveEnvelopes: boolean;
  /** The vendor answers before it works on the response, which is charged its reservation until its usage is known. */
  readonly isBackground: boolean;
  /** What limits the output; undefined if the model writes none. */
  readonly output: OutputSize | undefined;
  /** The stored response that this request continues. */
  readonly previousResponseId: string | undefined;
  /** Requests with the same key share a prefix that the vendor may have cached. */
  readonly promptCacheKey: string | undefined;
  /** Where the fields of the operation have their values in the body. */
  readonly spans: ReadonlyMap<string, Span>;
  /** After the opening brace of the body: an empty span. */
  readonly start: Span;
  /** Where an output limit goes that the body lacks, and the text around it. Default: at `start`. */
  readonly limitSlot?: { readonly span: Span; readonly before: string; readonly after: string } | undefined;
  /** Where the body repeats the name of the model that its path has, in the form `models/<name>`. Default: nowhere. */
  readonly modelSpans?: readonly Span[];
  /** Adds `stream_options.include_usage`, for vendors that report usage only if asked; undefined if it is there. */
  readonly usageEdit: Edit | undefined;
  /** The conditions of service that the request asks for, as it names them; undefined where it asks for none. */
  readonly asked: AskedService;
  /** The request sets how the model reasons before it answers. */
  readonly asksToReason: boolean;
  /** Another model than `model` may answer. */
  readonly namesSeveralModels: boolean;
  /**
   * The memory of the largest container that belongs to an object that the request names: the vendor may reuse it, whatever size
   * the request asks for. Default: none, or of 1 GB.
   */
  readonly containerGb?: number;
  /** Only set under a hard budget. */
  readonly hard?: HardLimits;
}

export interface AskedService {
  readonly serviceTier: string | undefined;
  readonly speed: string | undefined;
  readonly geography: string | undefined;
}

/** What a hard budget reserves for a request besides its bytes, and how it changes the body. */
interface HardLimits {
  /** Tokens that the vendor may add to the input. */
  readonly addedInputTokens: number;
  readonly toolUses: ToolUses;
  /** The output limit that goes out, and the field for it. */
  readonly limit: { readonly field: string; readonly tokens: number } | undefined;
  /** The fields that do not go out. */
  readonly removedFields: readonly string[];
  /** What else does not. */
  readonly cuts: readonly Span[];
  readonly removedTools: readonly RemovedTool[];
}

const ASKED_NOTHING: AskedService = { serviceTier: undefined, speed: undefined, geography: undefined };
const STREAM_OPTIONS_FIELDS = new Set(['include_usage']);
const STREAM_OPTIONS: Fields = { include_usage: flag };

/** Reads the body. Throws a 400 that says what is wrong and where. */
export function readGenerationRequest(operation: Operation, body: RequestBody): GenerationRequest {
  return body.read((bytes) => readBytes(operation, body, bytes));
}

function readBytes(operation: Operation, whole: RequestBody, body: Buffer): GenerationRequest {
  const watch = watchFor(operation.requestFields, operation.format);
  const spans = scanFields(body, operation.fields, { watch });
  const read = new FieldReader(body, operation.requestFields);
  const model = read.text('model', spans.get('model'));
  if (model === undefined) {
    const problem = spans.has('model') ? 'must be a string' : 'is required';
    throw new AppError('invalid_request', 'invalid_model', `model ${problem}, such as "openai/gpt-5.4".`, {
      param: 'model',
    });
  }
  const options = spans.get('stream_options');
  const stream = read.flag('stream', spans.get('stream')) === true;
  const wantsUsage = asksForUsage(body, read.object('stream_options', options));
  const others = OTHER_MODEL_FIELDS.filter((field) => spans.has(field));
  for (const field of others) read.assertItems(field, spans.get(field));
  return {
    operation,
    body: whole,
    model,
    stream,
    wantsUsage,
    isStored: isStored(operation, body, spans, read),
    mayNameObjects: watch?.isSeen ?? false,
    mayHaveEnvelopes: watch?.mayBeMarked ?? false,
    isBackground: read.flag('background', spans.get('background')) === true,
    output: outputSize(operation, body, spans, read),
    previousResponseId: read.text('previous_response_id', spans.get('previous_response_id')),
    promptCacheKey: read.text('prompt_cache_key', spans.get('prompt_cache_key')),
    asked: askedService(spans, read),
    asksToReason: REASONING_FIELDS.some((field) => spans.has(field)),
    namesSeveralModels: others.length > 0,
    spans,
    start: afterBrace(body, 0),
    usageEdit:
      operation.needsIncludeUsage && stream && !wantsUsage ? includeUsageEdit(body, options) : undefined,
  };
}

/** A message of a thread is stored by its id, as a response is. */
function isStored(
  { isStored }: Operation,
  body: Buffer,
  spans: ReadonlyMap<string, Span>,
  read: FieldReader,
): boolean {
  if (isStored) return read.flag('store', spans.get('store')) !== false;
  return isObject(body, spans.get('thread'));
}

const REASONING_FIELDS = ['thinking', 'reasoning', 'reasoning_effort'];

function askedService(spans: ReadonlyMap<string, Span>, read: FieldReader): AskedService {
  const tier = spans.get('service_tier');
  const speed = spans.get('speed');
  const geography = spans.get('inference_geo');
  if (!tier && !speed && !geography) return ASKED_NOTHING;
  return {
    serviceTier: read.text('service_tier', tier),
    speed: read.text('speed', speed),
    geography: read.text('inference_geo', geography),
  };
}

/** The limits of the output in a body. Values that are not a number of tokens are left to the vendor. */
function outputSize(
  { outputLimits, requestFields }: Operation,
  body: Buffer,
  spans: ReadonlyMap<string, Span>,
  read: FieldReader,
): OutputSize | undefined {
  if (!outputLimits) return undefined;
  let maxTokens: number | undefined;
  for (const field of outputLimits) {
    const limit = read.count(field, spans.get(field));
    if (limit !== undefined && limit > (maxTokens ?? 0)) maxTokens = limit;
  }
  const most = Math.max(
    read.count('n', spans.get('n')) ?? 1,
    read.count('best_of', spans.get('best_of')) ?? 1,
  );
  const prompt = spans.get('prompt');
  // Of the best of several candidates, all are billed.
  const prompts = prompt ? promptsIn(body, prompt, requestFields) : 1;
  return { maxTokens, choices: Math.min(most, MAX_CHOICES) * prompts };
}

/** The fields of a body that limit its output. */
export function setLimits({ operation, spans }: Pick<GenerationRequest, 'operation' | 'spans'>): string[] {
  return (operation.outputLimits ?? []).filter((field) => spans.has(field));
}

/** The smallest output limit of a body with several; vendors differ in which one they read. */
export function leastLimit({ operation, body, spans }: GenerationRequest): number | undefined {
  return body.read((bytes) => {
    const limits = (operation.outputLimits ?? []).flatMap((field) => {
      const span = spans.get(field);
      return (span && readCount(bytes, span, NUMBER, field)) ?? [];
    });
    return limits.length > 0 ? Math.min(...limits) : undefined;
  });
}

/** A completion of a list of texts, or of lists of tokens, has choices for each of them. */
function promptsIn(body: Buffer, { start }: Span, fields: Fields): number {
  if (body[start] !== OPEN_ARRAY) return 1;
  const items = new ListItems(body, start, listOf(fields, 'prompt'), 'prompt');
  let count = 0;
  while (items.next()) {
    const first = items.cursor.peek() ?? 0;
    // A list of tokens is one prompt.
    if (count === 0 && isDigit(first)) break;
    if (first === QUOTE || first === OPEN_ARRAY) count++;
    items.cursor.skipValue();
  }
  return Math.max(count, 1);
}

/**
 * The body for the vendor: byte for byte the client's, except for the model's name, `include_usage` if a stream would not
 * report its usage (`asksForUsage`: this vendor's would not), envelopes of the service's own, which no vendor gets, and, under a
 * hard budget, its output limit and what is removed.
 */
export function upstreamBody(
  generation: GenerationRequest,
  upstreamModel: string,
  asksForUsage: boolean,
): RequestBody {
  const { operation, body, spans, usageEdit, hard, modelSpans, mayHaveEnvelopes } = generation;
  const edits: Edit[] = [];
  const model = spans.get('model');
  if (model) edits.push({ span: model, text: JSON.stringify(upstreamModel) });
  for (const span of modelSpans ?? NOWHERE)
    edits.push({ span, text: JSON.stringify(`models/${upstreamModel}`) });
  if (usageEdit && asksForUsage) edits.push(usageEdit);
  if (hard) edits.push(...hardEdits(generation, hard));
  if (mayHaveEnvelopes && operation.format) {
    for (const span of envelopeCuts(operation.format, body.toBuffer())) edits.push({ span, text: '' });
  }
  return body.withEdits(edits);
}

const NOWHERE: readonly Span[] = [];

function hardEdits(
  { body, spans, start, limitSlot = { span: start, before: '', after: ',' } }: GenerationRequest,
  { limit, removedFields, cuts }: HardLimits,
): Edit[] {
  const edits: Edit[] = [];
  if (limit) {
    const given = spans.get(limit.field);
    const { span, before, after } = limitSlot;
    edits.push(
      given
        ? { span: given, text: String(limit.tokens) }
        : { span, text: `${before}"${limit.field}":${limit.tokens}${after}` },
    );
  }
  for (const span of cuts) edits.push({ span, text: '' });
  if (removedFields.length === 0) return edits;
  const removed = new Set(removedFields);
  for (const span of body.read((bytes) => memberCuts(bytes, removed))) edits.push({ span, text: '' });
  return edits;
}

/** Options that are no object are left to the vendor: it refuses them, or reports no usage, which is then counted here. */
function includeUsageEdit(body: Buffer, options: Span | undefined): Edit | undefined {
  if (!options) {
    // A comma follows: the body has at least one member, `model`.
    return { span: afterBrace(body, 0), text: '"stream_options":{"include_usage":true},' };
  }
  if (!isObject(body, options)) return undefined;
  const given = includeUsageSpan(body, options);
  if (given) return { span: given, text: 'true' };
  const isEmpty = /^\{\s*\}$/.test(body.toString('latin1', options.start, options.end));
  return { span: afterBrace(body, options.start), text: `"include_usage":true${isEmpty ? '' : ','}` };
}

function asksForUsage(body: Buffer, options: Span | undefined): boolean {
  if (!options) return false;
  const read = new FieldReader(body, STREAM_OPTIONS, 'stream_options.');
  return read.flag('include_usage', includeUsageSpan(body, options)) === true;
}

/** The span of the value of `stream_options.include_usage`. */
function includeUsageSpan(body: Buffer, options: Span): Span | undefined {
  return scanFields(body, STREAM_OPTIONS_FIELDS, { within: options }).get('include_usage');
}

/** The body with another model, whether it names one or not. Throws a 400 if it is no JSON object. */
export function withModel(body: RequestBody, model: string): RequestBody {
  const edit = body.read((bytes): Edit => {
    const text = JSON.stringify(model);
    const span = scanFields(bytes, MODEL_FIELD).get('model');
    if (span) return { span, text };
    const start = afterBrace(bytes, 0);
    return { span: start, text: `"model":${text}${isEmptyAfter(bytes, start.end) ? '' : ','}` };
  });
  return body.withEdits([edit]);
}

const MODEL_FIELD = new Set(['model']);

function isEmptyAfter(body: Buffer, brace: number): boolean {
  let at = brace;
  while (body[at] === 0x20 || body[at] === 0x09 || body[at] === 0x0a || body[at] === 0x0d) at++;
  return body[at] === 0x7d;
}

/** They name other models that may answer. */
const OTHER_MODEL_FIELDS = ['models', 'fallbacks'];
/** Policies and prices depend on them. */
const ALL_MODEL_FIELDS = ['model', ...OTHER_MODEL_FIELDS];

/** The spans of the values of an object's fields. Throws a 400 that says what is wrong and where. */
export function scanFields(
  bytes: Buffer,
  fields: ReadonlySet<string>,
  options?: Pick<ScanOptions, 'watch' | 'within'>,
): ReadonlyMap<string, Span> {
  try {
    return scanObject(bytes, fields, { exactCase: ALL_MODEL_FIELDS, ...options });
  } catch (error) {
    if (!(error instanceof JsonScanError)) throw error;
    if (error.variant) {
      const meant = error.variant.toLowerCase();
      const message = `The field "${error.variant}" differs from "${meant}" only in case: some vendors read it as that. Remove it.`;
      throw new AppError('invalid_request', 'ambiguous_field', message, { param: error.variant });
    }
    if (error.duplicate) {
      throw new AppError('invalid_request', 'duplicate_field', `${error.message}. Send it once.`, {
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

export function isObject(body: Buffer, span: Span | undefined): span is Span {
  return span !== undefined && body[span.start] === OPEN_OBJECT;
}
