import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from '@weighbridge/dialects';
import { findFields } from './jsonFields.ts';

/** Chat formats add tokens around each message, and around the prompt. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;
/** An encoded image or file: its length says little about its tokens. */
const ENCODED_MEDIA = /^(data:[\w/+.-]+;base64,|[A-Za-z0-9+/=_-]{1024})/;
const MAX_DEPTH = 64;

/** The fields of a body, in any dialect, that the model reads. */
const PROMPT_FIELDS = [
  'system',
  'instructions',
  'messages',
  'input',
  'prompt',
  'suffix',
  'tools',
  // Gemini's, in both spellings.
  'systemInstruction',
  'system_instruction',
  'contents',
  'content',
  'requests',
  'generateContentRequest',
  'generate_content_request',
];
const WANTED = new Set(PROMPT_FIELDS);
const LISTS_OF_MESSAGES = new Set(['messages', 'input', 'contents']);

export interface RequestText {
  readonly text: string;
  /** Tokens besides the text: those that the format adds, and those that the request has as numbers. */
  readonly framingTokens: number;
}

/** The text that the model reads: its tokens are counted if the vendor reports no usage. */
export function textOfRequest(body: Buffer): RequestText {
  const spans = findFields(body, WANTED);
  if (spans.size === 0) return { text: '', framingTokens: 0 };
  const reader = new TextReader(body);
  for (const field of PROMPT_FIELDS) {
    const span = spans.get(field);
    if (span) reader.read(span.start, LISTS_OF_MESSAGES.has(field));
  }
  const { texts, messages, numbers } = reader;
  const framingTokens = messages > 0 ? TOKENS_PER_PROMPT + TOKENS_PER_MESSAGE * messages : 0;
  return { text: texts.join('\n'), framingTokens: framingTokens + numbers };
}

/** Members that describe a part, and are not its content. */
const DESCRIPTIVE = new Set([
  'role',
  'type',
  'id',
  'tool_call_id',
  'tool_use_id',
  'cache_control',
  'detail',
  'thoughtSignature',
  'thought_signature',
]);

/** Collects the strings of values, without parsing what is around them. */
class TextReader {
  readonly texts: string[] = [];
  messages = 0;
  /** A list of numbers is a list of tokens: clients of embeddings send them. */
  numbers = 0;
  readonly #cursor: JsonCursor;
  #depth = 0;

  constructor(body: Buffer) {
    this.#cursor = new JsonCursor(body);
  }

  read(start: number, hasMessages: boolean): void {
    this.#cursor.at = start;
    if (hasMessages && this.#cursor.peek() === OPEN_ARRAY) this.#list(true);
    else this.#value();
  }

  #value(): void {
    const byte = this.#cursor.peek();
    if (byte === QUOTE) this.#text();
    else if (byte === OPEN_ARRAY && this.#depth < MAX_DEPTH) this.#list(false);
    else if (byte === OPEN_OBJECT && this.#depth < MAX_DEPTH) this.#object();
    else this.#cursor.skipValue();
  }

  #text(): void {
    const { bytes, at } = this.#cursor;
    const isEscaped = this.#cursor.string();
    const end = this.#cursor.at;
    const text: string = isEscaped
      ? JSON.parse(bytes.toString('utf8', at, end))
      : bytes.toString('utf8', at + 1, end - 1);
    if (!ENCODED_MEDIA.test(text)) this.texts.push(text);
  }

  #list(hasMessages: boolean): void {
    this.#enter();
    while (this.#cursor.peek() !== CLOSE_ARRAY) {
      const byte = this.#cursor.peek();
      if (byte === OPEN_OBJECT && hasMessages) this.messages++;
      if (byte !== undefined && (byte === 0x2d || (byte >= 0x30 && byte <= 0x39))) this.numbers++;
      this.#value();
      this.#next();
    }
    this.#leave();
  }

  #object(): void {
    this.#enter();
    while (this.#cursor.peek() !== CLOSE_OBJECT) {
      if (DESCRIPTIVE.has(this.#cursor.key())) this.#cursor.skipValue();
      else this.#value();
      this.#next();
    }
    this.#leave();
  }

  #enter(): void {
    this.#depth++;
    this.#cursor.at++;
    this.#cursor.space();
  }

  #leave(): void {
    this.#cursor.at++;
    this.#depth--;
  }

  #next(): void {
    this.#cursor.space();
    if (this.#cursor.peek() !== COMMA) return;
    this.#cursor.at++;
    this.#cursor.space();
  }
}
