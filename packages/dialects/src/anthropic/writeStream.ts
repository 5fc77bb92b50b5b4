import type {
  BetaCitationsDelta,
  BetaContentBlock,
  BetaRawContentBlockDelta,
  BetaServerToolUseBlock,
  BetaStopReason,
  BetaTextBlock,
  BetaThinkingBlock,
  BetaToolUseBlock,
  BetaWebSearchResultBlock,
  BetaWebSearchToolResultBlock,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { cachedInputTokens, NO_TOKENS, totalOutputTokens, uncachedInputTokens } from '@weighbridge/domain';
import { nativeReason } from '../conversation/nativeReason.ts';
import { type AnswerContext, UNSIGNED } from '../ir/answer.ts';
import { BlockQueue, type QueuedEvent } from '../ir/blockQueue.ts';
import type { NativeCitation } from '../ir/citation.ts';
import type {
  CitationEvent,
  FinishEvent,
  OpenEvent,
  SearchEvent,
  StopReason,
  StreamEvent,
  StreamWriter,
} from '../ir/event.ts';
import { namedFrame } from '../wire/frames.ts';
import { writeCitation } from './citations.ts';
import { messagesError } from './errors.ts';

const STOPS: Readonly<Record<StopReason, BetaStopReason>> = {
  end: 'end_turn',
  length: 'max_tokens',
  window: 'model_context_window_exceeded',
  calls: 'tool_use',
  sequence: 'stop_sequence',
  filter: 'refusal',
  refusal: 'refusal',
  pause: 'pause_turn',
  other: 'end_turn',
};

/** The usage of an answer as messages report it. */
function messagesUsage({ usage }: AnswerContext, finish?: FinishEvent): object {
  const tokens = usage() ?? NO_TOKENS;
  const written = tokens.cacheWriteTokens + tokens.cacheWrite1hTokens;
  return {
    input_tokens: uncachedInputTokens(tokens),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cachedInputTokens(tokens),
    output_tokens: totalOutputTokens(tokens),
    ...(finish?.reasoningTokens !== undefined && {
      output_tokens_details: { thinking_tokens: finish.reasoningTokens },
    }),
  };
}

/** The envelope of an answer: all but its content. */
export function messagesEnvelope(
  context: AnswerContext,
  finish?: FinishEvent,
  citations: readonly NativeCitation[] = [],
): object {
  return {
    id: `msg_${context.id}`,
    type: 'message',
    role: 'assistant',
    model: context.model,
    content: [],
    stop_reason: finish ? STOPS[finish.stop] : null,
    stop_sequence: finish?.sequence ?? null,
    ...(finish && { native_stop_reason: nativeReason(finish) }),
    ...(citations.length > 0 && { native_citations: citations }),
    usage: messagesUsage(context, finish),
  };
}

/** A block before its deltas. */
export function emptyBlock(open: OpenEvent): BetaContentBlock {
  if (open.block === 'call') {
    return { type: 'tool_use', id: open.id, name: open.name, input: {} } satisfies BetaToolUseBlock;
  }
  if (open.block === 'reasoning')
    return { type: 'thinking', thinking: '', signature: '' } satisfies BetaThinkingBlock;
  return { type: 'text', text: '', citations: null } satisfies BetaTextBlock;
}

/** The two blocks of a search that the vendor ran; the caller need not send them back. */
export function searchBlocks(
  { query, results }: SearchEvent,
  id: string,
): [BetaServerToolUseBlock, BetaWebSearchToolResultBlock] {
  const tool_use_id = `srvtoolu_${id}`;
  const content = results.map(
    ({ url, title }): BetaWebSearchResultBlock => ({
      type: 'web_search_result',
      url,
      title,
      encrypted_content: '',
      page_age: null,
    }),
  );
  return [
    { type: 'server_tool_use', id: tool_use_id, name: 'web_search', input: { query } },
    { type: 'web_search_tool_result', tool_use_id, content },
  ];
}

/** Whether a block of reasoning comes after one of text. */
function isLate(event: QueuedEvent, before: OpenEvent['block'] | undefined): boolean {
  return event.type === 'open' && event.block === 'reasoning' && before === 'text';
}

type DeltaShape = readonly [BetaRawContentBlockDelta['type'], string];

const DELTAS: Readonly<Record<OpenEvent['block'], DeltaShape>> = {
  text: ['text_delta', 'text'],
  refusal: ['text_delta', 'text'],
  reasoning: ['thinking_delta', 'thinking'],
  call: ['input_json_delta', 'partial_json'],
};
const SIGNATURE_DELTA: DeltaShape = ['signature_delta', 'signature'];

/** Writes a stream of messages, which has one open block at a time: blocks that interleave wait for their turn. */
export class MessagesStreamWriter implements StreamWriter {
  readonly #context: AnswerContext;
  readonly #queue = new BlockQueue();
  readonly #natives: NativeCitation[] = [];
  #index = -1;
  #searches = 0;
  #block: OpenEvent['block'] = 'text';
  #isSigned = true;
  /** The events of a block that waits for what follows. */
  #late: QueuedEvent[] | undefined;

  constructor(context: AnswerContext) {
    this.#context = context;
  }

  get heldBytes(): number {
    return this.#queue.heldBytes;
  }

  write(event: StreamEvent): string {
    switch (event.type) {
      case 'start':
        return frame('message_start', { message: messagesEnvelope(this.#context) });
      case 'open':
      case 'delta':
      case 'opaque':
      case 'citation':
      case 'close':
        return this.#writeAll(this.#queue.push(event));
      case 'search':
        return this.#writeLate() + this.#search(event);
      case 'finish':
        return this.#writeAll(this.#queue.end()) + this.#end(event);
      case 'error':
        return namedFrame('error', messagesError(event.error));
      default:
        return '';
    }
  }

  #writeAll(events: readonly QueuedEvent[]): string {
    let frames = '';
    for (const event of events) frames += this.#writeUnlessLate(event);
    return frames;
  }

  /**
   * What was signed after a text waits for the block that follows, and is dropped if none does: agents take the last block of an
   * answer for what it says.
   */
  #writeUnlessLate(event: QueuedEvent): string {
    if (isLate(event, this.#index < 0 ? undefined : this.#block)) {
      this.#late = [...(this.#late ?? []), event];
      return '';
    }
    const late = this.#late;
    if (late === undefined) return this.#writeQueued(event);
    if (event.type === 'opaque' || event.type === 'close') {
      late.push(event);
      return '';
    }
    return this.#writeLate() + this.#writeUnlessLate(event);
  }

  /** What waits for something that follows. */
  #writeLate(): string {
    const late = this.#late ?? [];
    this.#late = undefined;
    let frames = '';
    for (const one of late) frames += this.#writeQueued(one);
    return frames;
  }

  #search(search: SearchEvent): string {
    const [use, result] = searchBlocks(search, `${this.#context.id}_${this.#searches++}`);
    this.#block = 'call';
    const index = ++this.#index;
    const start = frame('content_block_start', { index, content_block: { ...use, input: {} } });
    const input = this.#delta(DELTAS.call, JSON.stringify(use.input));
    const found = { index: ++this.#index, content_block: result };
    return (
      start +
      input +
      frame('content_block_stop', { index }) +
      frame('content_block_start', found) +
      frame('content_block_stop', { index: found.index })
    );
  }

  #writeQueued(event: QueuedEvent): string {
    switch (event.type) {
      case 'open':
        this.#index++;
        this.#block = event.block;
        this.#isSigned = event.block !== 'reasoning';
        return frame('content_block_start', { index: this.#index, content_block: emptyBlock(event) });
      case 'delta':
        return this.#delta(DELTAS[this.#block], event.text);
      case 'opaque':
        this.#isSigned = true;
        return this.#delta(SIGNATURE_DELTA, this.#context.seal(event.opaque));
      case 'citation':
        this.#natives.push(event.citation.native);
        return this.#cite(event);
      case 'close':
        return this.#sign() + frame('content_block_stop', { index: this.#index });
    }
  }

  #cite({ citation }: CitationEvent): string {
    const delta = { type: 'citations_delta', citation: writeCitation(citation) } satisfies BetaCitationsDelta;
    return frame('content_block_delta', { index: this.#index, delta });
  }

  /** Reasoning without a signature gets one of ours: a later request must not take it to Anthropic. */
  #sign(): string {
    return this.#isSigned ? '' : this.#delta(SIGNATURE_DELTA, this.#context.seal(UNSIGNED));
  }

  /** Most frames are these, so they are not built as objects. */
  #delta([type, member]: DeltaShape, text: string): string {
    const delta = `{"type":"${type}","${member}":${JSON.stringify(text)}}`;
    return `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#index},"delta":${delta}}\n\n`;
  }

  #end(event: FinishEvent): string {
    const delta = {
      stop_reason: STOPS[event.stop],
      stop_sequence: event.sequence ?? null,
      native_stop_reason: nativeReason(event),
      ...(this.#natives.length > 0 && { native_citations: this.#natives }),
    };
    const usage = messagesUsage(this.#context, event);
    return frame('message_delta', { delta, usage }) + frame('message_stop', {});
  }
}

function frame(type: string, members: object): string {
  return namedFrame(type, { type, ...members });
}
