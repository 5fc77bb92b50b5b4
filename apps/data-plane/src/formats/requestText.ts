import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  type JsonCursor,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  type Span,
} from '@weighbridge/dialects';
import { readText } from './fieldReader.ts';
import { findFields } from './jsonFields.ts';
import { cursorOver } from './longValues.ts';
import { MAX_COUNTED_CHARACTERS } from './tokenCounter.ts';

/** Chat formats add tokens around each message, and around the prompt. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;
/** An encoded image or file: its length says little about its tokens. */
const ENCODED_MEDIA = /^(data:[\w/+.-]+;base64,|[A-Za-z0-9+/=_-]{1024})/;
const MAX_DEPTH = 64;
/** No client sends more. What follows them counts as text, by its bytes. */
const MAX_VALUES = 500_000;
/** The rest of a longer text is not decoded: its characters say enough. */
const MAX_TEXT_BYTES = 256 * 1024;
const ANY_TEXT = { bytes: MAX_TEXT_BYTES, accepts: 'text' };
/** Without `data:` in front, media is never shorter. */
const MIN_MEDIA_BYTES = 1_024;
const LOWER_D = 0x64;
/** As much as tells media from text. */
const MEDIA_BYTES = 1_100;

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
  /** As much of it as is counted. */
  readonly text: string;
  /** Of the whole text, if `text` is only its beginning. */
  readonly characters: number | undefined;
  /** Tokens besides the text: those that the format adds, and those that the request has as numbers. */
  readonly framingTokens: number;
}

/** The text that the model reads: its tokens are counted if the vendor reports no usage. */
export function textOfRequest(body: Buffer): RequestText {
  const spans = findFields(body, WANTED);
  if (spans.size === 0) return { text: '', characters: undefined, framingTokens: 0 };
  const reader = new TextReader(body);
  for (const field of PROMPT_FIELDS) {
    const span = spans.get(field);
    if (span) reader.read(span, LISTS_OF_MESSAGES.has(field));
  }
  const { texts, messages, numbers, uncounted } = reader;
  const framingTokens = messages > 0 ? TOKENS_PER_PROMPT + TOKENS_PER_MESSAGE * messages : 0;
  const text = texts.join('\n');
  const characters = uncounted > 0 ? text.length + uncounted : undefined;
  return { text, characters, framingTokens: framingTokens + numbers };
}

/** Members that describe a part, and are not its content. */
const DESCRIPTIVE = [
  'role',
  'type',
  'id',
  'tool_call_id',
  'tool_use_id',
  'cache_control',
  'detail',
  'thoughtSignature',
  'thought_signature',
];

/** Collects the strings of values, without parsing what is around them. */
class TextReader {
  readonly texts: string[] = [];
  /** Characters of texts that are not in `texts`, which has enough to be counted: of those with escapes, as they are written. */
  uncounted = 0;
  #counted = 0;
  messages = 0;
  /** A list of numbers is a list of tokens: clients of embeddings send them. */
  numbers = 0;
  readonly #cursor: JsonCursor;
  #depth = 0;
  #values = 0;

  constructor(body: Buffer) {
    this.#cursor = cursorOver(body);
  }

  read({ start, end }: Span, hasMessages: boolean): void {
    this.#cursor.at = start;
    if (hasMessages && this.#cursor.peek() === OPEN_ARRAY) this.#list(true);
    else this.#value();
    if (!this.#isFull) return;
    const bytes = Math.max(0, end - this.#cursor.at);
    if (this.texts.length > 0) this.uncounted += bytes;
    // The shortest number has a byte, and a comma.
    else this.numbers += Math.ceil(bytes / 2);
  }

  /** The rest is not read. */
  get #isFull(): boolean {
    return this.#values > MAX_VALUES;
  }

  #value(): void {
    if (++this.#values > MAX_VALUES) return;
    const byte = this.#cursor.peek();
    if (byte === QUOTE) this.#text();
    else if (byte === OPEN_ARRAY && this.#depth < MAX_DEPTH) this.#list(false);
    else if (byte === OPEN_OBJECT && this.#depth < MAX_DEPTH) this.#object();
    else this.#cursor.skipValue();
  }

  #skip(): void {
    this.#values++;
    this.#cursor.skipValue();
  }

  #text(): void {
    const { bytes, at } = this.#cursor;
    const isEscaped = this.#cursor.string();
    const end = this.#cursor.at;
    const isCounted = this.#counted < MAX_COUNTED_CHARACTERS;
    // A short text can only be media by how it begins.
    if (!isCounted && end - at < MIN_MEDIA_BYTES && bytes[at + 1] !== LOWER_D) {
      this.uncounted += charactersIn(bytes, at, end - 1);
      return;
    }
    const most = isCounted ? MAX_TEXT_BYTES : MEDIA_BYTES;
    const isWhole = isCounted && end - at - 2 <= most;
    const text =
      isEscaped && isWhole
        ? (readText(bytes, { start: at, end }, ANY_TEXT, '') ?? '')
        : bytes.toString('utf8', at + 1, Math.min(end - 1, at + 1 + most));
    if (ENCODED_MEDIA.test(text)) return;
    if (isCounted) {
      this.texts.push(text);
      this.#counted += text.length + 1;
    }
    if (!isWhole) this.uncounted += charactersIn(bytes, isCounted ? at + 1 + most : at, end - 1);
  }

  #list(hasMessages: boolean): void {
    this.#enter();
    while (!this.#isFull && this.#cursor.peek() !== CLOSE_ARRAY) {
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
    while (!this.#isFull && this.#cursor.peek() !== CLOSE_OBJECT) {
      if (this.#cursor.isKeyOf(DESCRIPTIVE)) this.#skip();
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

/** UTF-16 units, without decoding: a byte that continues a character is none. */
function charactersIn(bytes: Buffer, start: number, end: number): number {
  let characters = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (byte < 0x80 || byte >= 0xc0) characters += byte >= 0xf0 ? 2 : 1;
  }
  return characters;
}
