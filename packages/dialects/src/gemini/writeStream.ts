import { cachedInputTokens, NO_TOKENS, totalOutputTokens, uncachedInputTokens } from '@weighbridge/domain';
import { nativeReason } from '../conversation/nativeReason.ts';
import { PendingOpaques } from '../conversation/pendingOpaques.ts';
import type { AnswerContext } from '../ir/answer.ts';
import type {
  CitationEvent,
  FinishEvent,
  OpenEvent,
  StopReason,
  StreamEvent,
  StreamWriter,
} from '../ir/event.ts';
import type { JsonText } from '../ir/request.ts';
import { argumentsObject } from '../json/toolArguments.ts';
import { raw, writeJson } from '../json/writeJson.ts';
import { freeformArguments } from '../tools/freeform.ts';
import { dataFrame } from '../wire/frames.ts';
import { geminiError } from './errors.ts';
import { writeGrounding } from './grounding.ts';
import { encodeSignature } from './wire.ts';

const STOPS: Readonly<Record<StopReason, string>> = {
  end: 'STOP',
  length: 'MAX_TOKENS',
  window: 'MAX_TOKENS',
  calls: 'STOP',
  sequence: 'STOP',
  filter: 'SAFETY',
  refusal: 'SAFETY',
  pause: 'STOP',
  other: 'OTHER',
};

export function geminiReason({ stop }: FinishEvent): string {
  return STOPS[stop];
}

/** The usage of an answer as Gemini reports it. */
export function geminiUsage({ usage }: AnswerContext, { reasoningTokens = 0 }: FinishEvent): object {
  const tokens = usage() ?? NO_TOKENS;
  const cached = cachedInputTokens(tokens);
  const written = tokens.cacheWriteTokens + tokens.cacheWrite1hTokens;
  const prompt = uncachedInputTokens(tokens) + cached + written;
  const output = totalOutputTokens(tokens);
  const thoughts = Math.min(reasoningTokens, output);
  return {
    promptTokenCount: prompt,
    ...(cached > 0 && { cachedContentTokenCount: cached }),
    candidatesTokenCount: output - thoughts,
    ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
    totalTokenCount: prompt + output,
  };
}

/** A part with what has to come back with it. */
export function signedPart(part: object, envelope: string): object {
  return envelope === '' ? part : { ...part, thoughtSignature: encodeSignature(envelope) };
}

export function callPart({ id, name, form }: OpenEvent & { block: 'call' }, text: string): object {
  const args: JsonText = form === 'text' ? freeformArguments(text) : argumentsObject(text).json;
  return { functionCall: { id, name, args: raw(args) } };
}

/** The members of a candidate that say what it cites, and what was searched for. */
export function groundingMembers(
  citations: readonly CitationEvent[],
  webSearchQueries: readonly string[],
): object {
  if (citations.length + webSearchQueries.length === 0) return {};
  const queries = webSearchQueries.length === 0 ? {} : { webSearchQueries };
  if (citations.length === 0) return { groundingMetadata: queries };
  const nativeCitations = citations.map(({ citation }) => citation.native);
  return { groundingMetadata: { ...writeGrounding(citations), ...queries }, nativeCitations };
}

/** Writes a stream of Gemini's answers, in which a call is whole. */
export class GeminiStreamWriter implements StreamWriter {
  readonly #context: AnswerContext;
  readonly #opaques: PendingOpaques;
  readonly #blocks = new Map<number, { readonly open: OpenEvent; readonly pieces: string[] }>();
  readonly #citations: CitationEvent[] = [];
  readonly #queries: string[] = [];
  readonly #tail: string;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#opaques = new PendingOpaques(context);
    const tail = JSON.stringify({ modelVersion: context.model, responseId: context.id });
    this.#tail = tail.slice(1);
  }

  write(event: StreamEvent): string {
    this.#opaques.see(event);
    switch (event.type) {
      case 'open':
        this.#blocks.set(event.at, { open: event, pieces: [] });
        return '';
      case 'delta':
        return this.#delta(event.at, event.text);
      case 'close':
        return this.#close(event.at);
      case 'citation':
        this.#citations.push(event);
        return '';
      case 'search':
        this.#queries.push(event.query);
        return '';
      case 'finish':
        return this.#end(event);
      case 'error':
        return dataFrame(geminiError(event.error));
      default:
        return '';
    }
  }

  #delta(at: number, text: string): string {
    const block = this.#blocks.get(at);
    if (!block) return '';
    if (block.open.block === 'call') {
      block.pieces.push(text);
      return '';
    }
    const thought = block.open.block === 'reasoning' ? ',"thought":true' : '';
    return this.#chunk(`[{"text":${JSON.stringify(text)}${thought}}]`);
  }

  #close(at: number): string {
    const block = this.#blocks.get(at);
    this.#blocks.delete(at);
    if (block?.open.block !== 'call') return '';
    const part = callPart(block.open, block.pieces.join(''));
    return this.#chunk(writeJson([signedPart(part, this.#opaques.take())]));
  }

  /** What has to come back with no other part goes with an empty text. */
  #end(finish: FinishEvent): string {
    const envelope = this.#opaques.take();
    const parts = [signedPart({ text: '' }, envelope)];
    const native = JSON.stringify(nativeReason(finish));
    const reason = `,"finishReason":"${geminiReason(finish)}","finishMessage":${native}`;
    const members = JSON.stringify(groundingMembers(this.#citations, this.#queries)).slice(1, -1);
    const grounding = members === '' ? '' : `,${members}`;
    const usage = `,"usageMetadata":${JSON.stringify(geminiUsage(this.#context, finish))}`;
    return this.#chunk(JSON.stringify(parts), reason + grounding, usage);
  }

  #chunk(parts: string, reason = '', usage = ''): string {
    const candidate = `{"content":{"role":"model","parts":${parts}}${reason},"index":0}`;
    return `data: {"candidates":[${candidate}]${usage},${this.#tail}\n\n`;
  }
}
