import type {
  Response,
  ResponseFunctionWebSearch,
  ResponseOutputItem,
  ResponseReasoningItem,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { OWNERS } from '../format.ts';
import type { StopReason, StreamEvent, StreamReader } from '../ir/event.ts';
import { BROKEN_OFF } from '../ir/eventOrder.ts';
import type { Opaque } from '../ir/request.ts';
import { parseEvent, textOf } from '../json/writeJson.ts';
import { isRecord, recordsIn } from '../loss/fields.ts';
import { searchOf } from '../tools/webSearch.ts';
import { readAnnotation } from './annotations.ts';
import { statusOfCode } from './errors.ts';
import { outputEvents } from './outputEvents.ts';

/** Reads a stream of OpenAI's responses (https://platform.openai.com/docs/api-reference/responses-streaming). */
export class ResponsesStreamReader implements StreamReader {
  readonly #blocks = new Map<string, number>();
  /** The blocks that have text. */
  readonly #written = new Set<number>();
  /** The blocks whose annotations came one by one. */
  readonly #annotated = new Set<number>();
  /**
   * Reasoning without text, which only the vendor reads. It comes before the next call, for which the vendor needs it again; not before a text, which callers
   * take for the first item of an answer. What no call follows is of no use to anyone.
   */
  readonly #unread: Opaque[] = [];
  #next = 0;
  #hasCalls = false;
  #hasRefused = false;
  #isOver = false;

  push(data: string): readonly StreamEvent[] {
    const event = parseEvent<ResponseStreamEvent>(data);
    return event ? this.read(event) : unknown('not JSON');
  }

  read(event: ResponseStreamEvent): readonly StreamEvent[] {
    switch (event.type) {
      case 'response.created':
        return [
          { type: 'start', id: textOf(event.response?.id), created: numberOf(event.response?.created_at) },
        ];
      case 'response.output_item.added':
        return this.#openItem(event.item, event.output_index);
      case 'response.content_part.added': {
        const isRefusal = event.part?.type === 'refusal';
        if (isRefusal) this.#hasRefused = true;
        const at = this.#blockOf(`${event.output_index}/${event.content_index}`);
        // Of reasoning: its block is the item.
        if (event.part?.type === 'reasoning_text') return NONE;
        return [{ type: 'open', at, block: isRefusal ? 'refusal' : 'text' }];
      }
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return this.#delta(this.#blockOf(`${event.output_index}/${event.content_index}`), event.delta);
      case 'response.output_text.annotation.added': {
        const at = this.#blockOf(`${event.output_index}/${event.content_index}`);
        this.#annotated.add(at);
        return [readAnnotation(at, event.annotation)];
      }
      case 'response.content_part.done':
        return this.#closePart(this.#blockOf(`${event.output_index}/${event.content_index}`), event.part);
      case 'response.reasoning_summary_part.added': {
        const at = this.#blocks.get(`${event.output_index}`);
        return at === undefined ? NONE : this.#delta(at, '\n\n');
      }
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#reason(event.output_index, event.delta);
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.#delta(this.#blockOf(`${event.output_index}`), event.delta);
      case 'response.output_item.done':
        return this.#closeItem(event.item, event.output_index);
      case 'response.completed':
      case 'response.incomplete':
        return [...this.#unsent(event.response), ...this.#finish(event.response)];
      case 'response.failed':
        return this.#fail(event.response?.error);
      case 'error':
        return this.#fail(event);
      default:
        return SILENT.has(event.type) ? NONE : unknown(textOf(event.type));
    }
  }

  end(): readonly StreamEvent[] {
    return this.#isOver ? NONE : [BROKEN_OFF];
  }

  /** An item, or a part of one, is a block. */
  #blockOf(key: string): number {
    const known = this.#blocks.get(key);
    if (known !== undefined) return known;
    this.#blocks.set(key, this.#next);
    return this.#next++;
  }

  #delta(at: number, text: unknown): readonly StreamEvent[] {
    if (typeof text !== 'string' || text === '') return NONE;
    this.#written.add(at);
    return [{ type: 'delta', at, text }];
  }

  #reason(index: number, text: unknown): readonly StreamEvent[] {
    const isNew = !this.#blocks.has(`${index}`);
    if (isNew && !text) return NONE;
    const at = this.#blockOf(`${index}`);
    const events = this.#delta(at, text);
    return isNew ? [{ type: 'open', at, block: 'reasoning' }, ...events] : events;
  }

  /** Some vendors send annotations whole. */
  #closePart(at: number, part: unknown): readonly StreamEvent[] {
    const annotations = isRecord(part) && !this.#annotated.has(at) ? recordsIn(part.annotations) : [];
    return [...annotations.map((annotation) => readAnnotation(at, annotation)), { type: 'close', at }];
  }

  #openItem(item: ResponseOutputItem | undefined, index: number): readonly StreamEvent[] {
    switch (item?.type) {
      case 'message':
      case 'web_search_call':
      // It opens with its first text.
      case 'reasoning':
        return NONE;
      case 'function_call':
      case 'custom_tool_call': {
        this.#hasCalls = true;
        const before = this.#unread.splice(0).flatMap((opaque): StreamEvent[] => {
          const at = this.#next++;
          return [
            { type: 'open', at, block: 'reasoning' },
            { type: 'opaque', at, opaque },
            { type: 'close', at },
          ];
        });
        const at = this.#blockOf(`${index}`);
        const form = item.type === 'function_call' ? 'json' : 'text';
        const [id, name] = [textOf(item.call_id), textOf(item.name)];
        return [...before, { type: 'open', at, block: 'call', form, id, name }];
      }
      default:
        return unknown(textOf(item?.type));
    }
  }

  #closeItem(item: ResponseOutputItem | undefined, index: number): readonly StreamEvent[] {
    if (item?.type === 'web_search_call') return readSearch(item);
    const opaque = item?.type === 'reasoning' ? encryptedIn(item) : undefined;
    const at = this.#blocks.get(`${index}`);
    if (at === undefined && opaque) this.#unread.push(opaque);
    if (at === undefined || !item) return NONE;
    const events: StreamEvent[] = [];
    // Some vendors send arguments whole.
    const whole =
      item.type === 'function_call' ? item.arguments : item.type === 'custom_tool_call' ? item.input : '';
    if (!this.#written.has(at)) events.push(...this.#delta(at, whole));
    if (opaque) events.push({ type: 'opaque', at, opaque });
    events.push({ type: 'close', at });
    return events;
  }

  /** Some vendors send nothing but the response that is complete. */
  #unsent(response: Response | undefined): readonly StreamEvent[] {
    if (this.#next > 0) return NONE;
    return outputEvents(response?.output).flatMap((event) => this.read(event));
  }

  #finish(response: Response | undefined): readonly StreamEvent[] {
    this.#isOver = true;
    const native = textOf(response?.incomplete_details?.reason) || textOf(response?.status);
    const details: unknown = response?.usage?.output_tokens_details;
    const reasoningTokens = isRecord(details) ? numberOf(details.reasoning_tokens) : undefined;
    return [{ type: 'finish', stop: this.#stopOf(native), native, sequence: undefined, reasoningTokens }];
  }

  #stopOf(native: string): StopReason {
    if (native === 'max_output_tokens') return 'length';
    if (native === 'content_filter') return 'filter';
    if (native !== 'completed') return 'other';
    if (this.#hasRefused) return 'refusal';
    return this.#hasCalls ? 'calls' : 'end';
  }

  #fail(
    error: { readonly code?: unknown; readonly message?: unknown } | null | undefined,
  ): readonly StreamEvent[] {
    this.#isOver = true;
    const code = textOf(error?.code);
    const message =
      textOf(error?.message) || 'The vendor reports that the response failed, without a reason.';
    return [{ type: 'error', error: { status: statusOfCode(code), code, message } }];
  }
}

const NONE: readonly StreamEvent[] = [];

/** Events that say nothing new. */
const SILENT: ReadonlySet<string> = new Set<ResponseStreamEvent['type']>([
  'response.in_progress',
  'response.queued',
  'response.output_text.done',
  'response.refusal.done',
  'response.function_call_arguments.done',
  'response.custom_tool_call_input.done',
  'response.reasoning_summary_text.done',
  'response.reasoning_summary_part.done',
  'response.reasoning_text.done',
  'response.web_search_call.in_progress',
  'response.web_search_call.searching',
  'response.web_search_call.completed',
]);

function encryptedIn({ encrypted_content: data, id }: ResponseReasoningItem): Opaque | undefined {
  return typeof data === 'string'
    ? { owner: OWNERS.responses, kind: 'encrypted', data, id: textOf(id) }
    : undefined;
}

/** What it opened or looked for in a page is no search. */
function readSearch({ action }: ResponseFunctionWebSearch): readonly StreamEvent[] {
  const said: unknown = action;
  if (!isRecord(said) || said.type !== 'search') return unknown('web_search_call of another action');
  return [searchOf(said.query ?? (Array.isArray(said.queries) ? said.queries[0] : ''), said.sources)];
}

function unknown(name: string): readonly StreamEvent[] {
  return [{ type: 'unknown', name }];
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
