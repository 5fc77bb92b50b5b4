import type { ChatCompletionChunk } from 'openai/resources/chat/completions/completions';
import { citationOf, MAX_CITATIONS, nativeOf } from '../citations/source.ts';
import type { OpenEvent, StopReason, StreamEvent, StreamReader } from '../ir/event.ts';
import { BROKEN_OFF } from '../ir/eventOrder.ts';
import { parseEvent, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';
import { readAnnotation } from '../responses/annotations.ts';
import type { CallWire, ReasoningMembers } from './wire.ts';

const STOPS: Readonly<Record<string, StopReason>> = {
  stop: 'end',
  length: 'length',
  tool_calls: 'calls',
  function_call: 'calls',
  content_filter: 'filter',
};

type Delta = ReasoningMembers & {
  readonly content?: unknown;
  readonly refusal?: unknown;
  readonly tool_calls?: unknown;
  readonly annotations?: unknown;
};
export type ChatChunk = ChatCompletionChunk & { readonly error?: unknown; readonly citations?: unknown };

/** Reads a stream of chat completions. Its last reason for stopping counts once the stream is over: usage follows it. */
export class ChatStreamReader implements StreamReader {
  #next = 0;
  #hasStarted = false;
  #isOver = false;
  /** The block that text goes to, and what it is. */
  #current: { readonly at: number; readonly block: OpenEvent['block'] } | undefined;
  /** The blocks of calls, by their index. */
  readonly #calls = new Map<unknown, { readonly at: number; readonly id: string }>();
  /** They are about the text, which may come after them, so they wait until it is over. */
  #citations: StreamEvent[] = [];
  #hasAnnotations = false;
  /** Of sources, which some vendors repeat in each chunk. */
  #addresses: readonly unknown[] = [];
  #hasRefused = false;
  #native = '';
  #reasoningTokens: number | undefined;

  push(data: string): readonly StreamEvent[] {
    if (this.#isOver) return NONE;
    if (data === '[DONE]') return this.end();
    const chunk = parseEvent<ChatChunk>(data);
    return chunk ? this.read(chunk) : unknown('not JSON');
  }

  read(chunk: ChatChunk): readonly StreamEvent[] {
    if (chunk.error && !Array.isArray(chunk.choices)) return this.#fail(chunk.error);
    const events: StreamEvent[] = [];
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      events.push({ type: 'start', id: textOf(chunk.id), created: undefined });
    }
    this.#readUsage(chunk.usage);
    if (Array.isArray(chunk.citations)) this.#addresses = chunk.citations;
    if (Array.isArray(chunk.choices)) {
      for (const choice of chunk.choices) this.#readChoice(choice, events);
    }
    return events;
  }

  end(): readonly StreamEvent[] {
    if (this.#isOver) return NONE;
    this.#isOver = true;
    const native = this.#native;
    if (native === '') return [BROKEN_OFF];
    const isCalled = this.#calls.size > 0 && native === 'stop';
    const stop = this.#hasRefused ? 'refusal' : isCalled ? 'calls' : (STOPS[native] ?? 'other');
    const reasoningTokens = this.#reasoningTokens;
    const finish: StreamEvent = { type: 'finish', stop, native, sequence: undefined, reasoningTokens };
    return [...this.#cited(), finish];
  }

  #readUsage(usage: unknown): void {
    const details = isRecord(usage) ? usage.completion_tokens_details : undefined;
    if (isRecord(details) && typeof details.reasoning_tokens === 'number') {
      this.#reasoningTokens = details.reasoning_tokens;
    }
  }

  #readChoice(choice: unknown, events: StreamEvent[]): void {
    if (!isRecord(choice)) return;
    if (choice.index !== undefined && choice.index !== 0) {
      events.push({ type: 'unknown', name: 'another choice' });
      return;
    }
    const delta = isRecord(choice.delta) ? (choice.delta as Delta) : NOTHING;
    this.#text('reasoning', delta.reasoning_content ?? delta.reasoning, events);
    this.#text('text', delta.content, events);
    if (this.#text('refusal', delta.refusal, events)) this.#hasRefused = true;
    if (Array.isArray(delta.annotations)) this.#annotate(delta.annotations);
    if (Array.isArray(delta.tool_calls)) {
      for (const call of delta.tool_calls) if (isRecord(call)) this.#readCall(call as CallWire, events);
    }
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '')
      this.#native = choice.finish_reason;
  }

  /** Annotations say more than addresses alone. */
  #cited(): readonly StreamEvent[] {
    if (this.#hasAnnotations) return this.#citations;
    return this.#addresses.slice(0, MAX_CITATIONS).flatMap((url): StreamEvent[] => {
      const citation = citationOf({ url, native: nativeOf([{ url }]) });
      return citation ? [{ type: 'cite', at: undefined, citation, span: undefined }] : [];
    });
  }

  #annotate(annotations: readonly unknown[]): void {
    this.#hasAnnotations ||= annotations.length > 0;
    for (const annotation of annotations) {
      // One more is counted as too many.
      if (this.#citations.length > MAX_CITATIONS) return;
      this.#citations.push(readAnnotation(undefined, annotation));
    }
  }

  #text(block: 'text' | 'reasoning' | 'refusal', text: unknown, events: StreamEvent[]): boolean {
    if (typeof text !== 'string' || text === '') return false;
    if (this.#current?.block !== block) {
      this.#closeCurrent(events);
      this.#current = { at: this.#next++, block };
      events.push({ type: 'open', at: this.#current.at, block });
    }
    events.push({ type: 'delta', at: this.#current.at, text });
    return true;
  }

  #closeCurrent(events: StreamEvent[]): void {
    if (this.#current?.block === 'text' && this.#citations.length > 0) {
      events.push(...this.#citations);
      this.#citations = [];
    }
    if (this.#current) events.push({ type: 'close', at: this.#current.at });
    this.#current = undefined;
  }

  #readCall(wire: CallWire, events: StreamEvent[]): void {
    const at = this.#callOf(wire) ?? this.#openCall(wire, events);
    const { function: called, custom } = wire;
    const text = textOf(custom?.input ?? called?.arguments);
    if (text !== '') events.push({ type: 'delta', at, text });
  }

  /** Undefined if the call is a new one. */
  #callOf({ index, id, function: called, custom }: CallWire): number | undefined {
    const known = this.#calls.get(index ?? id);
    // Some vendors give every call the index 0, and others each piece of a call another id.
    const isNamed = textOf((custom ?? called)?.name) !== '';
    const isOther = isNamed && textOf(id) !== '' && id !== known?.id;
    return isOther ? undefined : known?.at;
  }

  #openCall({ index, id, type, function: called, custom }: CallWire, events: StreamEvent[]): number {
    this.#closeCurrent(events);
    const at = this.#next++;
    // Some vendors leave out the index, and send each call whole.
    this.#calls.set(index ?? id, { at, id: textOf(id) });
    const form = type === 'custom' ? 'text' : 'json';
    const name = textOf((custom ?? called)?.name);
    events.push({ type: 'open', at, block: 'call', form, id: textOf(id), name });
    return at;
  }

  #fail(error: unknown): readonly StreamEvent[] {
    this.#isOver = true;
    const fields = isRecord(error) ? error : {};
    const status =
      typeof fields.code === 'number' && fields.code >= 400 && fields.code < 600 ? fields.code : 500;
    const code = textOf(fields.code) || textOf(fields.type);
    const message =
      textOf(fields.message) || textOf(error) || 'The vendor reports an error without a message.';
    return [{ type: 'error', error: { status, code, message } }];
  }
}

const NONE: readonly StreamEvent[] = [];
const NOTHING: Delta = {};

function unknown(name: string): readonly StreamEvent[] {
  return [{ type: 'unknown', name }];
}
