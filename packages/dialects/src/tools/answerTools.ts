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
}

export const NO_TOOL_CHANGES: ToolChanges = { names: new Map(), freeform: new Set(), outputTool: '' };

/** Gives the calls of an answer the names and the form that the caller knows. */
export class AnswerTools {
  readonly #changes: ToolChanges;
  readonly #decoders = new Map<number, FreeformDecoder>();
  #hasCalls = false;
  readonly #isNone: boolean;

  constructor(changes: ToolChanges) {
    this.#changes = changes;
    this.#isNone = changes.names.size === 0 && changes.freeform.size === 0 && changes.outputTool === '';
  }

  push(event: StreamEvent): readonly StreamEvent[] {
    if (this.#isNone) return [event];
    switch (event.type) {
      case 'open':
        return [this.#open(event)];
      case 'delta': {
        const decoder = this.#decoders.get(event.at);
        return decoder ? textOf(event.at, decoder.push(event.text)) : [event];
      }
      case 'close': {
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

function textOf(at: number, text: string): readonly StreamEvent[] {
  return text === '' ? [] : [{ type: 'delta', at, text }];
}
