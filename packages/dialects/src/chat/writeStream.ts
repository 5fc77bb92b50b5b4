import { cachedInputTokens, NO_TOKENS, totalOutputTokens, uncachedInputTokens } from '@weighbridge/domain';
import type { ChatCompletionChunk } from 'openai/resources/chat/completions/completions';
import { nativeReason } from '../conversation/nativeReason.ts';
import type { AnswerContext } from '../ir/answer.ts';
import type {
  CitationEvent,
  FinishEvent,
  OpenEvent,
  StopReason,
  StreamEvent,
  StreamWriter,
} from '../ir/event.ts';
import { openaiError } from '../responses/errors.ts';
import { dataFrame } from '../wire/frames.ts';
import { writeChatAnnotation } from './annotations.ts';
import { SignedReasoning } from './signedReasoning.ts';

type ChatReason = NonNullable<ChatCompletionChunk.Choice['finish_reason']>;

const STOPS: Readonly<Record<StopReason, ChatReason>> = {
  end: 'stop',
  length: 'length',
  window: 'length',
  calls: 'tool_calls',
  sequence: 'stop',
  filter: 'content_filter',
  refusal: 'content_filter',
  pause: 'stop',
  other: 'stop',
};

/** A model that says that it refuses has stopped by itself; one that only stops was filtered. */
export function chatReason({ stop }: FinishEvent, hasRefusal: boolean): ChatReason {
  return stop === 'refusal' && hasRefusal ? 'stop' : STOPS[stop];
}

/** The usage of an answer as chat completions report it. */
export function chatUsage({ usage }: AnswerContext, { reasoningTokens }: FinishEvent): object {
  const tokens = usage() ?? NO_TOKENS;
  const cached = cachedInputTokens(tokens);
  const written = tokens.cacheWriteTokens + tokens.cacheWrite1hTokens;
  const audio = tokens.inputAudioTokens + tokens.cacheReadAudioTokens;
  const input = uncachedInputTokens(tokens) + cached + written;
  const output = totalOutputTokens(tokens);
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written, audio_tokens: audio },
    completion_tokens_details: {
      reasoning_tokens: reasoningTokens ?? 0,
      audio_tokens: tokens.outputAudioTokens,
    },
  };
}

/** A call before its arguments. `signature` is what has to come back with it. */
export function writeCall(open: OpenEvent & { block: 'call' }, input: string, signature: string): object {
  const { id, name, form } = open;
  const called =
    form === 'text'
      ? { type: 'custom', custom: { name, input } }
      : { type: 'function', function: { name, arguments: input } };
  const call = { id, ...called };
  return signature === '' ? call : { ...call, extra_content: { google: { thought_signature: signature } } };
}

/** Writes a stream of chat completions. */
export class ChatStreamWriter implements StreamWriter {
  readonly #context: AnswerContext;
  readonly #signed: SignedReasoning;
  /** What came of reasoning, which is repeated with its signature. */
  readonly #thoughts = new Map<number, string[]>();
  #heldBytes = 0;
  readonly #blocks = new Map<number, OpenEvent>();
  /** The indexes of calls, by their blocks. */
  readonly #calls = new Map<number, number>();
  readonly #citations: CitationEvent[] = [];
  readonly #head: string;
  #hasRefusal = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#signed = new SignedReasoning(context);
    const { id, created, model } = context;
    const head = JSON.stringify({ id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created, model });
    this.#head = head.slice(0, -1);
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  write(event: StreamEvent): string {
    switch (event.type) {
      case 'start':
        return this.#chunk('{"role":"assistant","content":""}');
      case 'open':
        return this.#open(event);
      case 'delta':
        return this.#delta(event.at, event.text);
      case 'opaque':
        this.#signed.add(event.opaque, this.#thoughts.get(event.at)?.join('') ?? '');
        return '';
      case 'citation':
        this.#citations.push(event);
        return '';
      case 'finish':
        return this.#annotate() + this.#sign() + this.#end(event);
      case 'error':
        return dataFrame(openaiError(event.error));
      default:
        return '';
    }
  }

  #open(open: OpenEvent): string {
    this.#blocks.set(open.at, open);
    if (open.block === 'refusal') this.#hasRefusal = true;
    if (open.block === 'text') this.#signed.text();
    if (open.block !== 'call') return '';
    const index = this.#calls.size;
    this.#calls.set(open.at, index);
    const call = { index, ...writeCall(open, '', this.#signed.call(open.id)) };
    return this.#chunk(JSON.stringify({ tool_calls: [call] }));
  }

  #delta(at: number, text: string): string {
    const open = this.#blocks.get(at);
    if (!open) return '';
    const written = JSON.stringify(text);
    switch (open.block) {
      case 'text':
        return this.#chunk(`{"content":${written}}`);
      case 'refusal':
        return this.#chunk(`{"refusal":${written}}`);
      case 'reasoning':
        this.#hold(at, text);
        return this.#chunk(`{"reasoning_content":${written}}`);
      case 'call': {
        const called =
          open.form === 'text' ? `"custom":{"input":${written}}` : `"function":{"arguments":${written}}`;
        return this.#chunk(`{"tool_calls":[{"index":${this.#calls.get(at)},${called}}]}`);
      }
    }
  }

  #hold(at: number, text: string): void {
    const pieces = this.#thoughts.get(at) ?? [];
    pieces.push(text);
    this.#thoughts.set(at, pieces);
    this.#heldBytes += Buffer.byteLength(text);
  }

  /** All at once, since SDKs keep the last list only. */
  #sign(): string {
    const reasoning_details = this.#signed.details;
    return reasoning_details.length === 0 ? '' : this.#chunk(JSON.stringify({ reasoning_details }));
  }

  /** The same. */
  #annotate(): string {
    if (this.#citations.length === 0) return '';
    return this.#chunk(JSON.stringify({ annotations: this.#citations.map(writeChatAnnotation) }));
  }

  #end(finish: FinishEvent): string {
    const native = JSON.stringify(nativeReason(finish));
    const natives = this.#citations.map(({ citation }) => citation.native);
    const cited = natives.length > 0 ? `,"native_citations":${JSON.stringify(natives)}` : '';
    const beside = `,"native_finish_reason":${native}${cited}`;
    const last = this.#chunk('{}', chatReason(finish, this.#hasRefusal), beside);
    const usage = JSON.stringify(chatUsage(this.#context, finish));
    const report = this.#context.wantsUsage ? `data: ${this.#head},"choices":[],"usage":${usage}}\n\n` : '';
    return `${last}${report}data: [DONE]\n\n`;
  }

  #chunk(delta: string, reason?: ChatReason, beside = ''): string {
    const ended = reason === undefined ? 'null' : `"${reason}"`;
    return `data: ${this.#head},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${ended}${beside}}]}\n\n`;
  }
}
