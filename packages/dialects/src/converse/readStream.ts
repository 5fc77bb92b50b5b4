import { OWNERS } from '../format.ts';
import type { StopReason, StreamEvent, StreamReader } from '../ir/event.ts';
import { BROKEN_OFF } from '../ir/eventOrder.ts';
import type { OpaqueKind } from '../ir/request.ts';
import { parseEvent, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';
import { statusOfException } from './errors.ts';

const STOPS: Readonly<Record<string, StopReason>> = {
  end_turn: 'end',
  tool_use: 'calls',
  max_tokens: 'length',
  stop_sequence: 'sequence',
  guardrail_intervened: 'filter',
  content_filtered: 'filter',
  model_context_window_exceeded: 'window',
};

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a stream of Bedrock's Converse (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html).
 * Each event is an object with one member, which has the name of its type; an exception is named `exception`.
 */
export class ConverseStreamReader implements StreamReader {
  readonly #open = new Set<number>();
  #finish: StreamEvent | undefined;
  #isOver = false;

  push(data: string): readonly StreamEvent[] {
    const event = parseEvent<Fields>(data);
    if (!event) return [{ type: 'unknown', name: 'not JSON' }];
    const [[name, value] = ['', undefined]] = Object.entries(event);
    return this.read(name, isRecord(value) ? value : {});
  }

  read(name: string, event: Fields): readonly StreamEvent[] {
    switch (name) {
      case 'messageStart':
        return [{ type: 'start', id: '', created: undefined }];
      case 'contentBlockStart':
        return this.#start(indexOf(event), event.start);
      case 'contentBlockDelta':
        return this.#delta(indexOf(event), event.delta);
      case 'contentBlockStop': {
        const at = indexOf(event);
        return this.#open.has(at) ? [{ type: 'close', at }] : [];
      }
      case 'messageStop':
        this.#stop(textOf(event.stopReason));
        return [];
      case 'metadata':
        return this.#end();
      case 'exception':
        return this.#fail(textOf(event.code), textOf(event.message));
      default:
        return [{ type: 'unknown', name }];
    }
  }

  /** The usage may be missing; what stopped the model may not. */
  end(): readonly StreamEvent[] {
    if (this.#isOver) return [];
    return this.#finish ? this.#end() : [BROKEN_OFF];
  }

  #start(at: number, start: unknown): readonly StreamEvent[] {
    const tool = isRecord(start) ? start.toolUse : undefined;
    if (!isRecord(tool)) {
      // A text says so by its first delta.
      const [name] = isRecord(start) ? Object.keys(start) : [];
      return name === undefined || name === 'text' ? [] : [{ type: 'unknown', name }];
    }
    this.#open.add(at);
    const [id, name] = [textOf(tool.toolUseId), textOf(tool.name)];
    return [{ type: 'open', at, block: 'call', form: 'json', id, name }];
  }

  #delta(at: number, delta: unknown): readonly StreamEvent[] {
    if (!isRecord(delta)) return [];
    if (typeof delta.text === 'string') return this.#text(at, 'text', delta.text);
    if (isRecord(delta.toolUse)) return textDelta(at, textOf(delta.toolUse.input));
    const { reasoningContent: reasoning } = delta;
    if (!isRecord(reasoning)) return [{ type: 'unknown', name: Object.keys(delta)[0] ?? '' }];
    if (typeof reasoning.text === 'string') return this.#text(at, 'reasoning', reasoning.text);
    const opened = this.#opened(at, 'reasoning');
    const { signature, redactedContent } = reasoning;
    if (typeof signature === 'string' && signature !== '') {
      return [...opened, opaqueEvent(at, 'signature', signature)];
    }
    return typeof redactedContent === 'string'
      ? [...opened, opaqueEvent(at, 'redacted', redactedContent)]
      : opened;
  }

  #text(at: number, block: 'text' | 'reasoning', text: string): readonly StreamEvent[] {
    return [...this.#opened(at, block), ...textDelta(at, text)];
  }

  #opened(at: number, block: 'text' | 'reasoning'): readonly StreamEvent[] {
    if (this.#open.has(at)) return [];
    this.#open.add(at);
    return [{ type: 'open', at, block }];
  }

  #stop(native: string): void {
    if (native === '') return;
    const stop = STOPS[native] ?? 'other';
    this.#finish = { type: 'finish', stop, native, sequence: undefined, reasoningTokens: undefined };
  }

  #end(): readonly StreamEvent[] {
    if (this.#isOver) return [];
    this.#isOver = true;
    return [this.#finish ?? BROKEN_OFF];
  }

  #fail(code: string, message: string): readonly StreamEvent[] {
    this.#isOver = true;
    return [{ type: 'error', error: { status: statusOfException(code), code, message } }];
  }
}

function indexOf({ contentBlockIndex: at }: Fields): number {
  return typeof at === 'number' ? at : 0;
}

function textDelta(at: number, text: string): readonly StreamEvent[] {
  return text === '' ? [] : [{ type: 'delta', at, text }];
}

function opaqueEvent(at: number, kind: OpaqueKind, data: string): StreamEvent {
  return { type: 'opaque', at, opaque: { owner: OWNERS.converse, kind, data, id: '' } };
}
