import type { HoldBudget } from '../formats/heldAnswer.ts';
import type { Span } from '../formats/scanJson.ts';
import { MAX_ANSWER_BYTES } from './storedAnswer.ts';

/** A streamed answer on its way, kept to its end unless it is too large, or too many are on their way at once. */
export class AnswerCapture {
  readonly #budget: HoldBudget;
  readonly #usageSpans: Span[] = [];
  #events: Buffer[] = [];
  #bytes = 0;
  #isGivenUp = false;

  constructor(budget: HoldBudget) {
    this.#budget = budget;
  }

  /** Takes an event, as the vendor sent it. */
  readonly add = (event: Buffer, isOnlyUsage: boolean): void => {
    if (this.#isGivenUp) return;
    const end = this.#bytes + event.length;
    if (end > MAX_ANSWER_BYTES || !this.#budget.take(event.length)) {
      this.giveUp();
      return;
    }
    if (isOnlyUsage) this.#usageSpans.push({ start: this.#bytes, end });
    this.#events.push(event);
    this.#bytes = end;
  };

  /** What was taken; undefined where that is not all. Nothing is taken any more. */
  end(): { readonly body: Buffer; readonly usageSpans: readonly Span[] } | undefined {
    const isWhole = !this.#isGivenUp;
    const body = Buffer.concat(this.#events);
    this.giveUp();
    return isWhole ? { body, usageSpans: this.#usageSpans } : undefined;
  }

  giveUp(): void {
    this.#isGivenUp = true;
    this.#budget.giveBack(this.#bytes);
    this.#bytes = 0;
    this.#events = [];
  }
}

/** An answer on its way that may be kept. One of the three ends is to be called. */
export interface KeptAnswer {
  /** Takes an event of a stream. */
  readonly add: (event: Buffer, isOnlyUsage: boolean) => void;
  endStream(contentType: string): void;
  /** `body`: undefined where it could not be read. */
  endWhole(body: Buffer | undefined, contentType: string): void;
  giveUp(): void;
}
