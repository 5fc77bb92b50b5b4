import { isRecord, parseJson } from './jsonFields.ts';

/** Chat formats frame each message by some tokens, and the whole by some more. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;
/** A string of this form and size is an image or a file: what it costs has little to do with its length. */
const ENCODED_MEDIA = /^(data:[\w/+.-]+;base64,|[A-Za-z0-9+/=_-]{1024})/;
const MAX_DEPTH = 64;

/** The fields of a body, in any dialect, that a model gets to read. */
const READ_BY_MODEL = ['system', 'instructions', 'messages', 'input', 'prompt', 'tools'];

export interface RequestText {
  readonly text: string;
  /** Tokens that stand for the frame around the text. */
  readonly overhead: number;
}

/** What a model gets to read of a request, for counting where the vendor does not say. */
export function textOfRequest(body: Buffer): RequestText {
  const request = parseJson(body);
  if (!isRecord(request)) return { text: body.toString('utf8'), overhead: 0 };
  const texts: string[] = [];
  for (const field of READ_BY_MODEL) collect(request[field], texts, 0);
  const messages = [request.messages, request.input].find(Array.isArray);
  const overhead = messages ? TOKENS_PER_PROMPT + TOKENS_PER_MESSAGE * messages.length : 0;
  return { text: texts.join('\n'), overhead };
}

function collect(value: unknown, texts: string[], depth: number): void {
  if (typeof value === 'string') {
    if (!ENCODED_MEDIA.test(value)) texts.push(value);
    return;
  }
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return;
  for (const [name, inner] of Object.entries(value)) {
    if (!FRAME.has(name)) collect(inner, texts, depth + 1);
  }
}

/** Members that say what a part is, not what is in it. */
const FRAME = new Set(['role', 'type', 'id', 'tool_call_id', 'tool_use_id', 'cache_control', 'detail']);
