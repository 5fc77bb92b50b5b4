import type { OpenEvent, StreamEvent } from '../ir/event.ts';
import { FreeformDecoder } from './freeform.ts';

/** How the tools of an answer differ from those that the caller named: what `AnswerTools` undoes. */
export interface ToolChanges {
  /** The caller's names, by those that the vendor got. */
  readonly names: ReadonlyMap<string, string>;
  /** Freeform tools that went out as functions, by the name that the vendor got. */
  readonly freeform: ReadonlySet<string>;
  /** The tool that stands for a structured output; empty if there is none. */
  readonly outputTool: string;
  /** The caller takes one call at a time, which the vendor can't be told: later ones do not reach it. */
  readonly isOneCall: boolean;
}

export const NO_TOOL_CHANGES: ToolChanges = {
  names: new Map(),
  freeform: new Set(),
  outputTool: '',
  isOneCall: false,
};

/** Gives the calls of an answer the names and the form that the caller knows. */
export class AnswerTools {
  readonly #changes: ToolChanges;
  readonly #decoders = new Map<number, FreeformDecoder>();
  /** The blocks of calls that do not reach the caller. */
  readonly #left = new Set<number>();
  #hasCalls = false;
  readonly #isNone: boolean;

  constructor(changes: ToolChanges) {
    this.#changes = changes;
    const { names, freeform, outputTool, isOneCall } = changes;
    this.#isNone = names.size === 0 && freeform.size === 0 && outputTool === '' && !isOneCall;
  }

  push(event: StreamEvent): readonly StreamEvent[] {
    if (this.#isNone) return [event];
    switch (event.type) {
      case 'open':
        return this.#leaves(event) ? NONE : [this.#open(event)];
      case 'delta': {
        if (this.#left.has(event.at)) return NONE;
        const decoder = this.#decoders.get(event.at);
        return decoder ? textOf(event.at, decoder.push(event.text)) : [event];
      }
      case 'close': {
        if (this.#left.has(event.at)) return NONE;
        const decoder = this.#decoders.get(event.at);
        return decoder ? [...textOf(event.at, decoder.end()), event] : [event];
      }
      case 'finish':
        // The forced call of an output tool is the answer itself.
        if (event.stop !== 'calls' || this.#hasCalls || this.#changes.outputTool === '') return [event];
        return [{ ...event, stop: 'end' }];
      default:
        return [event];
    }
  }

  /** Whether a call does not reach the caller, and what belongs to it with it. */
  #leaves(event: OpenEvent): boolean {
    const isOther = event.block === 'call' && event.name !== this.#changes.outputTool;
    const isLeft = this.#changes.isOneCall && this.#hasCalls && isOther;
    if (isLeft) this.#left.add(event.at);
    return isLeft;
  }

  #open(event: OpenEvent): StreamEvent {
    if (event.block !== 'call') return event;
    const { names, freeform, outputTool } = this.#changes;
    if (event.name === outputTool) return { type: 'open', at: event.at, block: 'text' };
    this.#hasCalls = true;
    const name = names.get(event.name) ?? event.name;
    if (!freeform.has(event.name)) return { ...event, name };
    this.#decoders.set(event.at, new FreeformDecoder());
    return { ...event, name, form: 'text' };
  }
}

const NONE: readonly StreamEvent[] = [];

function textOf(at: number, text: string): readonly StreamEvent[] {
  return text === '' ? NONE : [{ type: 'delta', at, text }];
}
