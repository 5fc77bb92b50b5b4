import { isRecord, parseJson } from './jsonFields.ts';

/** Chat formats add tokens around each message, and around the prompt. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;
/** An encoded image or file: its length says little about its tokens. */
const ENCODED_MEDIA = /^(data:[\w/+.-]+;base64,|[A-Za-z0-9+/=_-]{1024})/;
const MAX_DEPTH = 64;

/** The fields of a body, in any dialect, that the model reads. */
const PROMPT_FIELDS = ['system', 'instructions', 'messages', 'input', 'prompt', 'tools'];

export interface RequestText {
  readonly text: string;
  /** Tokens that the format adds to the text. */
  readonly framingTokens: number;
}

/** The text that the model reads: its tokens are counted if the vendor reports no usage. */
export function textOfRequest(body: Buffer): RequestText {
  const request = parseJson(body);
  if (!isRecord(request)) return { text: body.toString('utf8'), framingTokens: 0 };
  const texts: string[] = [];
  for (const field of PROMPT_FIELDS) collect(request[field], texts, 0);
  const messages = [request.messages, request.input].find(Array.isArray);
  const framingTokens = messages ? TOKENS_PER_PROMPT + TOKENS_PER_MESSAGE * messages.length : 0;
  return { text: texts.join('\n'), framingTokens };
}

function collect(value: unknown, texts: string[], depth: number): void {
  if (typeof value === 'string') {
    if (!ENCODED_MEDIA.test(value)) texts.push(value);
    return;
  }
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return;
  for (const [name, inner] of Object.entries(value)) {
    if (!DESCRIPTIVE.has(name)) collect(inner, texts, depth + 1);
  }
}

/** Members that describe a part, and are not its content. */
const DESCRIPTIVE = new Set(['role', 'type', 'id', 'tool_call_id', 'tool_use_id', 'cache_control', 'detail']);
