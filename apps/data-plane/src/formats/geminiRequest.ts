import { OPEN_ARRAY, OPEN_OBJECT } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { boundOf, FieldReader, ListItems, listOf, outOfBounds, readText } from './fieldReader.ts';
import { type GenerationRequest, isObject, scanFields } from './generationRequest.ts';
import type { Operation } from './operation.ts';
import type { RequestBody } from './requestBody.ts';
import {
  BATCH_EMBED_FIELDS,
  GENERATE_CONTENT_FIELDS,
  GENERATION_CONFIG,
  snakeCase,
} from './requestFields/gemini.ts';
import { MAX_CHOICES } from './requestFields/notes.ts';
import type { Span } from './scanJson.ts';
import { watchFor } from './storedObjects.ts';

/** What the path of a request to Gemini's API says. */
export interface GeminiTarget {
  readonly operation: Operation;
  /** As the client names it, without `models/`. */
  readonly model: string;
  readonly stream: boolean;
  /** The stream is one JSON array, not events. */
  readonly isArray: boolean;
}

const BODY_FIELDS = inBothSpellings([
  'model',
  'generationConfig',
  'tools',
  'cachedContent',
  'serviceTier',
  'generateContentRequest',
  'requests',
]);
const CONFIG_FIELDS = inBothSpellings(['maxOutputTokens', 'candidateCount', 'thinkingConfig']);
const MODEL_FIELD = new Set(['model']);
const MODEL_BOUND = boundOf(GENERATE_CONTENT_FIELDS, 'model');
const REQUESTS = listOf(BATCH_EMBED_FIELDS, 'requests');
const NO_SERVICE = { serviceTier: undefined, speed: undefined, geography: undefined };

/** Reads a body in Gemini's dialect. Throws a 400 that says what is wrong and where. */
export function readGeminiRequest(target: GeminiTarget, body: RequestBody): GenerationRequest {
  return body.read((bytes) => readBytes(target, body, bytes));
}

function readBytes(target: GeminiTarget, whole: RequestBody, body: Buffer): GenerationRequest {
  const { operation, model, stream } = target;
  if (model.length > MODEL_BOUND.bytes) throw outOfBounds('model', MODEL_BOUND);
  const watch = watchFor(operation.requestFields, operation.format);
  const found = scanSpelled(body, BODY_FIELDS, '', { watch });
  const config = found.get('generationConfig');
  const inConfig = isObject(body, config)
    ? scanSpelled(body, CONFIG_FIELDS, 'generationConfig.', { within: config })
    : NONE;
  const limit = inConfig.get('maxOutputTokens');
  const read = new FieldReader(body, GENERATION_CONFIG.value.fields, 'generationConfig.');
  const tier = new FieldReader(body, GENERATE_CONTENT_FIELDS).text('serviceTier', found.get('serviceTier'));
  const spans = new Map<string, Span>();
  if (limit) spans.set('maxOutputTokens', limit);
  const tools = found.get('tools');
  if (tools) spans.set('tools', tools);
  return {
    operation,
    body: whole,
    model,
    stream,
    wantsUsage: true,
    isStored: false,
    mayNameObjects: watch?.isSeen ?? false,
    mayHaveEnvelopes: watch?.mayBeMarked ?? false,
    isBackground: false,
    output: operation.outputLimits && {
      maxTokens: countOrText(read, 'maxOutputTokens', limit),
      choices: Math.min(
        countOrText(read, 'candidateCount', inConfig.get('candidateCount')) ?? 1,
        MAX_CHOICES,
      ),
    },
    previousResponseId: undefined,
    promptCacheKey: undefined,
    spans,
    start: after(body.indexOf('{')),
    limitSlot: limitSlot(body, config),
    modelSpans: ownModels(target, body, found),
    usageEdit: undefined,
    asked: tier === undefined ? NO_SERVICE : { serviceTier: tier, speed: undefined, geography: undefined },
    asksToReason: inConfig.has('thinkingConfig'),
    namesSeveralModels: false,
  };
}

/** The path for the vendor, below the base URL of Gemini's own API. A stream is asked for as events, whatever the client gets. */
export function geminiPath({ operation, stream }: GenerationRequest, upstreamModel: string): string {
  const method = stream ? 'streamGenerateContent?alt=sse' : operation.method;
  return `/models/${encodeURIComponent(upstreamModel)}:${method}`;
}

const NONE: ReadonlyMap<string, Span> = new Map();

/** Where an output limit goes that the body lacks. */
function limitSlot(body: Buffer, config: Span | undefined): GenerationRequest['limitSlot'] {
  if (isObject(body, config)) {
    return { span: after(config.start), before: '', after: separator(body, config.start) };
  }
  const brace = body.indexOf('{');
  return { span: after(brace), before: '"generationConfig":{', after: `}${separator(body, brace)}` };
}

function after(brace: number): Span {
  return { start: brace + 1, end: brace + 1 };
}

/** What stands between a new first member and the object's others. */
function separator(body: Buffer, brace: number): string {
  let at = brace + 1;
  while (body[at] === 0x20 || body[at] === 0x09 || body[at] === 0x0a || body[at] === 0x0d) at++;
  return body[at] === 0x7d ? '' : ',';
}

/** Where the body repeats its model, which goes out as the vendor's name of it. Throws a 400 if it names another one. */
function ownModels(target: GeminiTarget, body: Buffer, found: ReadonlyMap<string, Span>): Span[] {
  const spans: Span[] = [];
  const add = (span: Span | undefined, path: string): void => {
    if (!span) return;
    assertSame(target, readText(body, span, MODEL_BOUND, path), path);
    spans.push(span);
  };
  add(found.get('model'), 'model');
  const counted = found.get('generateContentRequest');
  if (isObject(body, counted)) {
    add(scanFields(body, MODEL_FIELD, { within: counted }).get('model'), 'generateContentRequest.model');
  }
  const requests = found.get('requests');
  if (requests) {
    for (const [index, item] of objectsIn(body, requests)) {
      add(scanFields(body, MODEL_FIELD, { within: item }).get('model'), `requests[${index}].model`);
    }
  }
  return spans;
}

function assertSame({ model }: GeminiTarget, given: string | undefined, path: string): void {
  const other = given?.replace(/^models\//, '');
  if (other === model) return;
  const message = `${path} must be "models/${model.slice(0, 100)}", the model that the path names. Write that, or leave the field out.`;
  throw new AppError('invalid_request', 'model_mismatch', message, { param: path });
}

/** The objects in the list of a batch, with their indexes; empty if it is none. */
function objectsIn(body: Buffer, { start }: Span): [index: number, Span][] {
  if (body[start] !== OPEN_ARRAY) return [];
  const items = new ListItems(body, start, REQUESTS, 'requests');
  const { cursor } = items;
  const found: [number, Span][] = [];
  while (items.next()) {
    const from = cursor.at;
    const isOne = cursor.peek() === OPEN_OBJECT;
    cursor.skipValue();
    if (isOne) found.push([items.index, { start: from, end: cursor.at }]);
  }
  return found;
}

function inBothSpellings(names: readonly string[]): ReadonlySet<string> {
  return new Set([...names, ...names.map(snakeCase)]);
}

/** By the first of its spellings: where the fields of an object are. Throws a 400 if one is there in both. */
function scanSpelled(
  body: Buffer,
  fields: ReadonlySet<string>,
  path: string,
  options?: Parameters<typeof scanFields>[2],
): ReadonlyMap<string, Span> {
  const found = new Map<string, Span>();
  for (const [name, span] of scanFields(body, fields, options)) {
    const meant = camelCase(name);
    if (found.has(meant)) {
      const message = `"${path}${meant}" occurs twice, in two spellings. Send it once.`;
      throw new AppError('invalid_request', 'duplicate_field', message, { param: `${path}${meant}` });
    }
    found.set(meant, span);
  }
  return found;
}

function camelCase(name: string): string {
  return name.replaceAll(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}

/** Google's APIs also take numbers as texts. */
function countOrText(read: FieldReader, name: string, span: Span | undefined): number | undefined {
  const text = read.text(name, span);
  if (text === undefined) return read.count(name, span);
  return /^\d{1,15}$/.test(text) && Number(text) > 0 ? Number(text) : undefined;
}
