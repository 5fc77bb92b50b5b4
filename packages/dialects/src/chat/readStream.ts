import type { ChatCompletionChunk } from 'openai/resources/chat/completions/completions';
import type { OpenEvent, StopReason, StreamEvent, StreamReader } from '../ir/event.ts';
import { BROKEN_OFF } from '../ir/eventOrder.ts';
import { parseEvent, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';
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
};
type Chunk = ChatCompletionChunk & { readonly error?: unknown };

/** Reads a stream of chat completions. Its last reason for stopping counts once the stream is over: usage follows it. */
export class ChatStreamReader implements StreamReader {
  #next = 0;
  #hasStarted = false;
  #isOver = false;
  /** The block that text goes to, and what it is. */
  #current: { readonly at: number; readonly block: OpenEvent['block'] } | undefined;
  /** The blocks of calls, by their index. */
  readonly #calls = new Map<unknown, number>();
  #hasRefused = false;
  #native = '';
  #reasoningTokens: number | undefined;

  push(data: string): readonly StreamEvent[] {
    if (this.#isOver) return NONE;
    if (data === '[DONE]') return this.end();
    const chunk = parseEvent<Chunk>(data);
    if (!chunk) return unknown('not JSON');
    if (chunk.error && !Array.isArray(chunk.choices)) return this.#fail(chunk.error);
    const events: StreamEvent[] = [];
    if (!this.#hasStarted) {
      this.#hasStarted = true;
      events.push({ type: 'start', id: textOf(chunk.id), created: undefined });
    }
    this.#readUsage(chunk.usage);
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
    return [{ type: 'finish', stop, native, sequence: undefined, reasoningTokens: this.#reasoningTokens }];
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
    if (Array.isArray(delta.tool_calls)) {
      for (const call of delta.tool_calls) if (isRecord(call)) this.#readCall(call as CallWire, events);
    }
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '')
      this.#native = choice.finish_reason;
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
    if (this.#current) events.push({ type: 'close', at: this.#current.at });
    this.#current = undefined;
  }

  #readCall({ index, id, type, function: called, custom }: CallWire, events: StreamEvent[]): void {
    // Some vendors leave out the index, and send each call whole.
    const key = index ?? id;
    let at = this.#calls.get(key);
    if (at === undefined) {
      this.#closeCurrent(events);
      at = this.#next++;
      this.#calls.set(key, at);
      const form = type === 'custom' ? 'text' : 'json';
      const name = textOf((custom ?? called)?.name);
      events.push({ type: 'open', at, block: 'call', form, id: textOf(id), name });
    }
    const text = textOf(custom?.input ?? called?.arguments);
    if (text !== '') events.push({ type: 'delta', at, text });
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
