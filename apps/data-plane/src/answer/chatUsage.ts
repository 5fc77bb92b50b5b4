import { type TokenUsage, usageFromOpenAi } from '@weighbridge/domain';
import { JsonScanError, scanObject } from '../body/scanJson.ts';
import { eventData, SseSplitter } from './sseSplitter.ts';

/** What an answer says about itself. */
export interface AnswerFacts {
  /** Undefined where the vendor did not say. */
  readonly usage: TokenUsage | undefined;
  readonly responseId: string;
}

const FIELDS = new Set(['id', 'usage']);

/** Reads a whole answer. One that is not JSON says nothing. */
export function readChatAnswer(body: Buffer): AnswerFacts {
  try {
    const spans = scanObject(body, FIELDS);
    const field = (name: string): unknown => {
      const span = spans.get(name);
      return span && JSON.parse(body.toString('utf8', span.start, span.end));
    };
    return { usage: usageFromOpenAi(field('usage')), responseId: text(field('id')) };
  } catch (error) {
    if (error instanceof JsonScanError) return { usage: undefined, responseId: '' };
    throw error;
  }
}

interface ChatChunk {
  readonly id?: unknown;
  readonly choices?: unknown;
  readonly usage?: unknown;
  readonly error?: unknown;
}

/**
 * Reads usage from a streamed answer as its bytes pass. The chunk that only reports usage stays hidden where the caller
 * did not ask for it; every other byte passes unchanged.
 */
export class ChatStreamTap {
  readonly #splitter = new SseSplitter();
  readonly #hideUsage: boolean;
  #usage: TokenUsage | undefined;
  #responseId = '';
  /** A chunk carries about one token: the measure where the vendor does not tell. */
  #chunks = 0;
  #failed = false;

  constructor(options: { readonly hideUsage: boolean }) {
    this.#hideUsage = options.hideUsage;
  }

  /** Takes what came and returns what goes to the caller. */
  push(chunk: Buffer): Buffer {
    const events = this.#splitter.push(chunk);
    const shown = events.filter((event) => !this.#read(event) || !this.#hideUsage);
    // Held back only as far as there is something to hide: a caller that sees everything sees it at once.
    return this.#hideUsage ? Buffer.concat(shown) : chunk;
  }

  /** What is left when the vendor's stream ends. */
  end(): Buffer {
    const rest = this.#splitter.rest();
    if (rest.length > 0 && this.#read(rest) && this.#hideUsage) return Buffer.alloc(0);
    return this.#hideUsage ? rest : Buffer.alloc(0);
  }

  get facts(): AnswerFacts {
    return { usage: this.#usage, responseId: this.#responseId };
  }

  get chunks(): number {
    return this.#chunks;
  }

  /** The vendor reported an error after it had answered 200. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Takes note of an event; true where it does nothing but report usage. */
  #read(event: Buffer): boolean {
    const data = eventData(event);
    if (data === undefined || data === '[DONE]') return false;
    this.#chunks++;
    const first = this.#responseId === '';
    if (!first && !data.includes('"usage"') && !data.includes('"error"')) return false;
    const chunk = parse(data);
    if (chunk === undefined) return false;
    if (first) this.#responseId = text(chunk.id);
    if (chunk.error !== undefined && chunk.choices === undefined) this.#failed = true;
    const usage = usageFromOpenAi(chunk.usage);
    if (!usage) return false;
    this.#usage = usage;
    return Array.isArray(chunk.choices) && chunk.choices.length === 0;
  }
}

function parse(data: string): ChatChunk | undefined {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null ? (value as ChatChunk) : undefined;
  } catch {
    return undefined;
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
