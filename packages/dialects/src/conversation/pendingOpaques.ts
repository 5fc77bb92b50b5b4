import type { AnswerContext } from '../ir/answer.ts';
import type { StreamEvent } from '../ir/event.ts';
import { joinEnvelopes } from '../wire/seal.ts';

/**
 * The opaque values of reasoning that go out with the next call or text, for dialects that have no place for them in reasoning.
 * Their envelopes hold the reasoning too, since callers of such dialects don't send it back.
 */
export class PendingOpaques {
  readonly #context: AnswerContext;
  readonly #texts = new Map<number, string[]>();
  #envelopes: string[] = [];

  constructor(context: AnswerContext) {
    this.#context = context;
  }

  /** Every event has to pass here. */
  see(event: StreamEvent): void {
    if (event.type === 'open' && event.block === 'reasoning') this.#texts.set(event.at, []);
    else if (event.type === 'delta') this.#texts.get(event.at)?.push(event.text);
    else if (event.type === 'opaque') {
      this.#envelopes.push(this.#context.seal(event.opaque, this.#texts.get(event.at)?.join('') ?? ''));
    }
  }

  /** What is pending, as one value; empty if nothing is. */
  take(): string {
    const envelopes = this.#envelopes;
    if (envelopes.length === 0) return '';
    this.#envelopes = [];
    return joinEnvelopes(envelopes);
  }
}
