import type {
  BetaRawContentBlockDeltaEvent,
  BetaRawContentBlockStartEvent,
  BetaRawMessageDeltaEvent,
  BetaRawMessageStreamEvent,
  BetaStopReason,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { OWNERS } from '../format.ts';
import type { StopReason, StreamEvent, StreamReader } from '../ir/event.ts';
import { BROKEN_OFF } from '../ir/eventOrder.ts';
import type { Opaque, OpaqueKind } from '../ir/request.ts';
import { type KeptShape, parseBody } from '../json/parseBody.ts';
import { parseEvent, parseJson, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';
import { searchOf } from '../tools/webSearch.ts';
import { readCitation, readCitations } from './citations.ts';
import { statusOfType } from './errors.ts';

const STOPS: Readonly<Record<BetaStopReason, StopReason>> = {
  end_turn: 'end',
  max_tokens: 'length',
  stop_sequence: 'sequence',
  tool_use: 'calls',
  pause_turn: 'pause',
  compaction: 'other',
  refusal: 'refusal',
  model_context_window_exceeded: 'window',
};

/** Arguments are kept as the vendor wrote them. */
const START_SHAPE: KeptShape = { members: { content_block: { members: { input: 'kept' } } } };

interface ErrorEvent {
  readonly type: 'error';
  readonly error?: { readonly type?: string; readonly message?: string };
}

type MessagesEvent = BetaRawMessageStreamEvent | ErrorEvent | { readonly type: 'ping' };

/** Reads a stream of Anthropic's messages (https://docs.anthropic.com/en/docs/build-with-claude/streaming). */
export class MessagesStreamReader implements StreamReader {
  #isOver = false;
  #hasFinished = false;
  #reasoningTokens: number | undefined;
  #finish: StreamEvent | undefined;
  readonly #searches = new Searches();
  /** Of calls whose arguments came with their beginning, as some vendors send them. */
  readonly #inputs = new Map<number, string>();

  push(data: string): readonly StreamEvent[] {
    const event = parseEvent<MessagesEvent>(data);
    if (!event) return [{ type: 'unknown', name: 'not JSON' }];
    if (event.type === 'content_block_start') this.#keepInput(event, data);
    return this.read(event);
  }

  read(event: MessagesEvent): readonly StreamEvent[] {
    switch (event.type) {
      case 'message_start':
        return [{ type: 'start', id: textOf(event.message?.id), created: undefined }];
      case 'content_block_start':
        return this.#searches.start(event) ?? startBlock(event);
      case 'content_block_delta':
        if (this.#searches.add(event)) return [];
        if (event.delta?.type === 'input_json_delta' && event.delta.partial_json)
          this.#inputs.delete(event.index);
        return readDelta(event);
      case 'content_block_stop':
        return [...textDelta(event.index, this.#inputs.get(event.index)), { type: 'close', at: event.index }];
      case 'message_delta':
        this.#readEnd(event);
        return [];
      case 'message_stop':
        return this.#stop();
      case 'ping':
        return [];
      case 'error':
        return this.#fail(event);
      default:
        return [{ type: 'unknown', name: textOf((event as { type?: unknown }).type) }];
    }
  }

  end(): readonly StreamEvent[] {
    return this.#isOver ? [] : [BROKEN_OFF];
  }

  #keepInput({ index, content_block: block }: BetaRawContentBlockStartEvent, data: string): void {
    if (block?.type !== 'tool_use' || !isRecord(block.input) || Object.keys(block.input).length === 0) return;
    const [input] = parseBody(Buffer.from(data), START_SHAPE)?.kept ?? [];
    if (input !== undefined) this.#inputs.set(index, input);
  }

  #readEnd({ delta, usage }: BetaRawMessageDeltaEvent): void {
    const details: unknown = (usage as { output_tokens_details?: unknown } | undefined)
      ?.output_tokens_details;
    if (isRecord(details) && typeof details.thinking_tokens === 'number') {
      this.#reasoningTokens = details.thinking_tokens;
    }
    const native = textOf(delta?.stop_reason);
    if (native === '') return;
    this.#hasFinished = true;
    this.#finish = {
      type: 'finish',
      stop: STOPS[native as BetaStopReason] ?? 'other',
      native,
      sequence: delta?.stop_sequence ?? undefined,
      reasoningTokens: undefined,
    };
  }

  /** A stream that ends without a reason for it was cut. */
  #stop(): readonly StreamEvent[] {
    this.#isOver = true;
    if (!this.#hasFinished || this.#finish?.type !== 'finish') return [BROKEN_OFF];
    return [{ ...this.#finish, reasoningTokens: this.#reasoningTokens }];
  }

  #fail({ error }: ErrorEvent): readonly StreamEvent[] {
    this.#isOver = true;
    const code = textOf(error?.type);
    return [{ type: 'error', error: { status: statusOfType(code), code, message: textOf(error?.message) } }];
  }
}

/** The searches that the vendor runs: what one looks for comes before what it finds. */
class Searches {
  readonly #queries = new Map<number, { readonly id: string; input: string }>();

  /** The events of a block of a search; undefined if it is none. */
  start({ index, content_block: block }: BetaRawContentBlockStartEvent): readonly StreamEvent[] | undefined {
    if (block?.type === 'server_tool_use' && block.name === 'web_search') {
      const isWhole = isRecord(block.input) && Object.keys(block.input).length > 0;
      this.#queries.set(index, { id: textOf(block.id), input: isWhole ? JSON.stringify(block.input) : '' });
      return [];
    }
    if (block?.type !== 'web_search_tool_result') return undefined;
    const asked = [...this.#queries.values()].find(({ id }) => id === block.tool_use_id);
    const input = parseJson(asked?.input ?? '');
    return [searchOf(isRecord(input) ? input.query : '', block.content)];
  }

  /** Whether the delta is one of what is looked for. */
  add({ index, delta }: BetaRawContentBlockDeltaEvent): boolean {
    const search = this.#queries.get(index);
    if (!search) return false;
    const piece = delta?.type === 'input_json_delta' ? textOf(delta.partial_json) : '';
    if (search.input.length < MAX_INPUT_LENGTH) search.input += piece;
    return true;
  }
}

const MAX_INPUT_LENGTH = 10_000;

function startBlock({
  index: at,
  content_block: block,
}: BetaRawContentBlockStartEvent): readonly StreamEvent[] {
  switch (block?.type) {
    case 'text':
      return [
        ...withText({ type: 'open', at, block: 'text' }, block.text),
        ...readCitations(at, block.citations),
      ];
    case 'thinking':
      return withText({ type: 'open', at, block: 'reasoning' }, block.thinking);
    case 'redacted_thinking':
      return [{ type: 'open', at, block: 'reasoning' }, opaqueEvent(at, 'redacted', textOf(block.data))];
    case 'tool_use':
      return [
        { type: 'open', at, block: 'call', form: 'json', id: textOf(block.id), name: textOf(block.name) },
      ];
    default:
      return [{ type: 'unknown', name: textOf(block?.type) }];
  }
}

function withText(open: StreamEvent & { type: 'open' }, text: unknown): readonly StreamEvent[] {
  return typeof text === 'string' && text !== '' ? [open, { type: 'delta', at: open.at, text }] : [open];
}

function readDelta({ index: at, delta }: BetaRawContentBlockDeltaEvent): readonly StreamEvent[] {
  switch (delta?.type) {
    case 'text_delta':
      return textDelta(at, delta.text);
    case 'thinking_delta':
      return textDelta(at, delta.thinking);
    case 'input_json_delta':
      return textDelta(at, delta.partial_json);
    case 'citations_delta':
      return [readCitation(at, delta.citation)];
    case 'signature_delta':
      return textOf(delta.signature) === '' ? [] : [opaqueEvent(at, 'signature', delta.signature)];
    default:
      return [{ type: 'unknown', name: textOf(delta?.type) }];
  }
}

function textDelta(at: number, text: unknown): readonly StreamEvent[] {
  return typeof text === 'string' && text !== '' ? [{ type: 'delta', at, text }] : [];
}

function opaqueEvent(at: number, kind: OpaqueKind, data: string): StreamEvent {
  const opaque: Opaque = { owner: OWNERS.messages, kind, data, id: '' };
  return { type: 'opaque', at, opaque };
}
