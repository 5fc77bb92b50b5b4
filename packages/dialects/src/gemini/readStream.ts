import type { FinishReason } from '@google/genai';
import { OWNERS } from '../format.ts';
import type { OpenEvent, StopReason, StreamEvent, StreamReader } from '../ir/event.ts';
import { BROKEN_OFF } from '../ir/eventOrder.ts';
import { type KeptShape, parseBody } from '../json/parseBody.ts';
import { parseEvent, textOf } from '../json/writeJson.ts';
import { isRecord, recordsIn } from '../loss/fields.ts';
import { GroundingReader } from './grounding.ts';
import { SIGNED_TEXT } from './wire.ts';

const STOPS: Partial<Record<FinishReason, StopReason>> & Readonly<Record<string, StopReason>> = {
  STOP: 'end',
  MAX_TOKENS: 'length',
  SAFETY: 'filter',
  RECITATION: 'filter',
  LANGUAGE: 'filter',
  BLOCKLIST: 'filter',
  PROHIBITED_CONTENT: 'filter',
  SPII: 'filter',
  IMAGE_SAFETY: 'filter',
};

/** Arguments are kept as the vendor wrote them. */
const CALL_SHAPE: KeptShape = {
  members: {
    candidates: {
      items: {
        members: {
          content: {
            members: { parts: { items: { members: { functionCall: { members: { args: 'kept' } } } } } },
          },
        },
      },
    },
  },
};

interface Chunk {
  readonly responseId?: unknown;
  readonly candidates?: unknown;
  readonly promptFeedback?: unknown;
  readonly usageMetadata?: unknown;
  readonly error?: unknown;
}

/** Reads a stream of Gemini's `streamGenerateContent`, or one answer of `generateContent`. */
export class GeminiStreamReader implements StreamReader {
  #next = 0;
  #calls = 0;
  #hasStarted = false;
  #isOver = false;
  #native = '';
  readonly #grounding = new GroundingReader();
  /**
   * The signature of a text, which comes after it: callers take the first item of an answer for its text. The text is not over before
   * the candidate is, which may still name its sources.
   */
  #lastSignature = '';
  #reasoningTokens: number | undefined;
  #current: { readonly at: number; readonly block: OpenEvent['block'] } | undefined;

  push(data: string): readonly StreamEvent[] {
    if (this.#isOver) return NONE;
    const parsed = data.includes('unctionCall"') ? parseBody(Buffer.from(data), CALL_SHAPE) : undefined;
    const chunk = parsed && isRecord(parsed.value) ? (parsed.value as Chunk) : parseEvent<Chunk>(data);
    if (!chunk) return unknown('not JSON');
    if (chunk.error) return this.#fail(chunk.error);
    const events: StreamEvent[] = [];
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      events.push({ type: 'start', id: textOf(chunk.responseId), created: undefined });
    }
    if (isRecord(chunk.usageMetadata) && typeof chunk.usageMetadata.thoughtsTokenCount === 'number') {
      this.#reasoningTokens = chunk.usageMetadata.thoughtsTokenCount;
    }
    if (isRecord(chunk.promptFeedback) && typeof chunk.promptFeedback.blockReason === 'string') {
      this.#native = chunk.promptFeedback.blockReason;
    }
    for (const candidate of recordsIn(chunk.candidates)) {
      // An index of 0 is left out.
      if ((candidate.index ?? 0) === 0) this.#readCandidate(candidate, parsed?.kept ?? NO_TEXTS, events);
      else events.push(...unknown('another candidate'));
    }
    return events;
  }

  end(): readonly StreamEvent[] {
    if (this.#isOver) return NONE;
    this.#isOver = true;
    const native = this.#native;
    if (native === '') return [BROKEN_OFF];
    const known = STOPS[native];
    const isBlocked = !known && this.#next === 0;
    const stop = native === 'STOP' && this.#calls > 0 ? 'calls' : (known ?? (isBlocked ? 'filter' : 'other'));
    const reasoningTokens = this.#reasoningTokens;
    const events = [...this.#grounding.end()];
    this.#signLast(events);
    events.push(...this.#grounding.searches());
    events.push({ type: 'finish', stop, native, sequence: undefined, reasoningTokens });
    return events;
  }

  #readCandidate(
    candidate: Readonly<Record<string, unknown>>,
    kept: readonly string[],
    events: StreamEvent[],
  ): void {
    const { content, finishReason } = candidate;
    this.#grounding.read(candidate);
    if (isRecord(content) && Array.isArray(content.parts)) {
      for (const part of content.parts) if (isRecord(part)) this.#readPart(part, kept, events);
    }
    if (typeof finishReason === 'string' && finishReason !== 'FINISH_REASON_UNSPECIFIED')
      this.#native = finishReason;
  }

  #readPart(part: Readonly<Record<string, unknown>>, kept: readonly string[], events: StreamEvent[]): void {
    const { text, thought, thoughtSignature, functionCall } = part;
    const isText = typeof text === 'string' && thought !== true;
    // Of a text that has begun, another part is the next one.
    if (!isText || (text !== '' && this.#current?.block === 'text')) this.#signLast(events);
    if (typeof thoughtSignature === 'string' && thoughtSignature !== '') {
      if (isText) {
        this.#signedText(text, thoughtSignature, events);
        return;
      }
      this.#readSignature(thoughtSignature, events);
    }
    if (isRecord(functionCall)) this.#readCall(functionCall, kept, events);
    else if (typeof text === 'string') this.#text(thought === true ? 'reasoning' : 'text', text, events);
    else if (thoughtSignature === undefined) events.push(...unknown(Object.keys(part)[0] ?? 'an empty part'));
  }

  #signedText(text: string, signature: string, events: StreamEvent[]): void {
    this.#text('text', text, events);
    this.#signLast(events);
    this.#lastSignature = signature;
  }

  #signLast(events: StreamEvent[]): void {
    if (this.#lastSignature === '') return;
    const signature = this.#lastSignature;
    this.#lastSignature = '';
    this.#readSignature(signature, events, SIGNED_TEXT);
  }

  /** A block of its own. */
  #readSignature(data: string, events: StreamEvent[], id = ''): void {
    if (this.#current?.block !== 'reasoning') this.#open('reasoning', events);
    const at = this.#current?.at ?? 0;
    events.push({ type: 'opaque', at, opaque: { owner: OWNERS.gemini, kind: 'thought', data, id } });
    this.#close(events);
  }

  #readCall(call: Readonly<Record<string, unknown>>, kept: readonly string[], events: StreamEvent[]): void {
    this.#close(events);
    const at = this.#next++;
    this.#calls++;
    const input = typeof call.args === 'number' ? (kept[call.args] ?? '{}') : '{}';
    events.push({
      type: 'open',
      at,
      block: 'call',
      form: 'json',
      id: textOf(call.id),
      name: textOf(call.name),
    });
    events.push({ type: 'delta', at, text: input }, { type: 'close', at });
  }

  #text(block: 'text' | 'reasoning', text: string, events: StreamEvent[]): void {
    if (text === '') return;
    if (this.#current?.block !== block) this.#open(block, events);
    events.push({ type: 'delta', at: this.#current?.at ?? 0, text });
  }

  #open(block: 'text' | 'reasoning', events: StreamEvent[]): void {
    this.#close(events);
    this.#current = { at: this.#next++, block };
    events.push({ type: 'open', at: this.#current.at, block });
  }

  #close(events: StreamEvent[]): void {
    if (this.#current?.block === 'text') events.push(...this.#grounding.take());
    if (this.#current) events.push({ type: 'close', at: this.#current.at });
    this.#current = undefined;
  }

  #fail(error: unknown): readonly StreamEvent[] {
    this.#isOver = true;
    const fields = isRecord(error) ? error : {};
    const status =
      typeof fields.code === 'number' && fields.code >= 400 && fields.code < 600 ? fields.code : 500;
    const message = textOf(fields.message) || 'The vendor reports an error without a message.';
    return [{ type: 'error', error: { status, code: textOf(fields.status), message } }];
  }
}

const NONE: readonly StreamEvent[] = [];
const NO_TEXTS: readonly string[] = [];

function unknown(name: string): readonly StreamEvent[] {
  return [{ type: 'unknown', name }];
}
