import { SIGNED_TEXT } from '../gemini/wire.ts';
import type { AnswerContext } from '../ir/answer.ts';
import type { Opaque } from '../ir/request.ts';
import { joinEnvelopes } from '../wire/seal.ts';
import type { ReasoningDetail } from './wire.ts';

type Detail = { -readonly [Name in keyof ReasoningDetail]: ReasoningDetail[Name] };

interface Pending {
  readonly envelope: string;
  /** Undefined if it belongs to a text. */
  readonly detail: Detail | undefined;
}

/**
 * What of the reasoning of an answer has to come back, in both spellings that chat completions have: the details of its message, and
 * a signature of the call that follows, for clients that keep no more than calls.
 */
export class SignedReasoning {
  readonly #context: AnswerContext;
  readonly #details: Detail[] = [];
  #pending: Pending[] = [];

  constructor(context: AnswerContext) {
    this.#context = context;
  }

  /** For the message. */
  get details(): readonly ReasoningDetail[] {
    return this.#details;
  }

  add(opaque: Opaque, text: string): void {
    const { seal } = this.#context;
    const detail: Detail =
      text === ''
        ? { type: 'reasoning.encrypted', data: seal(opaque) }
        : { type: 'reasoning.text', text, signature: seal(opaque) };
    detail.index = this.#details.length;
    this.#details.push(detail);
    const isOfText = opaque.id === SIGNED_TEXT;
    this.#pending.push({ envelope: seal(opaque, text), detail: isOfText ? undefined : detail });
  }

  /** A text follows: what came before is no call's. */
  text(): void {
    this.#pending = this.#pending.map(({ envelope }) => ({ envelope, detail: undefined }));
  }

  /** A call follows; returns its signature, which is empty if nothing is to come back with it. */
  call(id: string): string {
    for (const { detail } of this.#pending) if (detail) detail.id = id;
    const envelopes = this.#pending.map(({ envelope }) => envelope);
    this.#pending = [];
    return joinEnvelopes(envelopes);
  }
}
