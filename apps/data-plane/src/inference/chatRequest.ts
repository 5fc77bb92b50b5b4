import { AppError } from '@weighbridge/errors';
import { JsonScanError, type Span, scanObject } from '../body/scanJson.ts';

/** The fields of a chat-completions body that the service reads. All others are the vendor's business. */
const FIELDS = new Set(['model', 'stream', 'stream_options']);

/** A chat-completions request as it came, with what admission and forwarding have to know of it. */
export interface ChatRequest {
  readonly body: Buffer;
  readonly model: string;
  readonly stream: boolean;
  /** The caller asked for the chunk that reports usage, so it gets to see it. */
  readonly wantsUsage: boolean;
  readonly spans: ReadonlyMap<string, Span>;
}

/** Reads a body; what is wrong with it is a 400 that says what and where. */
export function readChatRequest(body: Buffer): ChatRequest {
  const spans = scan(body);
  const model = valueAt(body, spans.get('model'));
  if (typeof model !== 'string') {
    const problem = model === undefined ? 'is required' : 'must be a string';
    throw new AppError('invalid_request', 'invalid_model', `model ${problem}, such as "openai/gpt-5.4".`, {
      param: 'model',
    });
  }
  const options = valueAt(body, spans.get('stream_options'));
  return {
    body,
    model,
    stream: valueAt(body, spans.get('stream')) === true,
    wantsUsage: isRecord(options) && options.include_usage === true,
    spans,
  };
}

/**
 * The body for the vendor: byte for byte the caller's, but for the model's name, and, where it streams, the wish to be
 * told the usage.
 */
export function upstreamBody(request: ChatRequest, upstreamModel: string): Buffer {
  const { body, spans } = request;
  const edits: { span: Span; text: string }[] = [];
  const model = spans.get('model');
  if (model) edits.push({ span: model, text: JSON.stringify(upstreamModel) });
  if (request.stream && !request.wantsUsage) {
    const options = spans.get('stream_options');
    const given = valueAt(body, options);
    const text = JSON.stringify({ ...(isRecord(given) && given), include_usage: true });
    if (options) edits.push({ span: options, text });
    // Right behind the opening brace of an object that has a member already: `model`.
    else edits.push({ span: afterBrace(body), text: `"stream_options":${text},` });
  }
  return splice(body, edits);
}

function scan(body: Buffer): ReadonlyMap<string, Span> {
  try {
    return scanObject(body, FIELDS);
  } catch (error) {
    if (!(error instanceof JsonScanError)) throw error;
    if (error.duplicate) {
      throw new AppError('invalid_request', 'duplicate_field', `${error.message}: send it once.`, {
        param: error.duplicate,
      });
    }
    throw new AppError(
      'invalid_request',
      'malformed_json',
      `The body is not a JSON object: ${error.message}.`,
    );
  }
}

function splice(body: Buffer, edits: { readonly span: Span; readonly text: string }[]): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  for (const { span, text } of edits.sort((a, b) => a.span.start - b.span.start)) {
    parts.push(body.subarray(at, span.start), Buffer.from(text));
    at = span.end;
  }
  return Buffer.concat([...parts, body.subarray(at)]);
}

function afterBrace(body: Buffer): Span {
  const at = body.indexOf('{') + 1;
  return { start: at, end: at };
}

function valueAt(body: Buffer, span: Span | undefined): unknown {
  return span && JSON.parse(body.toString('utf8', span.start, span.end));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
