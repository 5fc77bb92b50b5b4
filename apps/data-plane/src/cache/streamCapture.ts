import type { BufferBudget } from '../formats/bufferBudget.ts';
import type { Span } from '../formats/scanJson.ts';
import { MAX_CACHED_BYTES } from './cachedResponse.ts';

/** Buffers the events of a stream for the cache, unless it is too large or too many streams are buffered at once. */
export class StreamCapture {
  readonly #budget: BufferBudget;
  readonly #usageSpans: Span[] = [];
  #events: Buffer[] = [];
  #bytes = 0;
  #isDiscarded = false;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /** Takes an event, as the vendor sent it. */
  readonly add = (event: Buffer, isOnlyUsage: boolean): void => {
    if (this.#isDiscarded) return;
    const end = this.#bytes + event.length;
    if (end > MAX_CACHED_BYTES || !this.#budget.tryTake(event.length)) {
      this.discard();
      return;
    }
    if (isOnlyUsage) this.#usageSpans.push({ start: this.#bytes, end });
    this.#events.push(event);
    this.#bytes = end;
  };

  /** Returns the stream, and releases its buffer; undefined if it was not buffered whole. */
  end(): { readonly body: Buffer; readonly usageSpans: readonly Span[] } | undefined {
    const isWhole = !this.#isDiscarded;
    const body = Buffer.concat(this.#events);
    this.discard();
    return isWhole ? { body, usageSpans: this.#usageSpans } : undefined;
  }

  discard(): void {
    this.#isDiscarded = true;
    this.#budget.release(this.#bytes);
    this.#bytes = 0;
    this.#events = [];
  }
}

/** Stores a response in the cache while it passes. One of `endStream`, `endBody` and `discard` must be called. */
export interface CacheFill {
  /** Takes an event of a stream. */
  readonly add: (event: Buffer, isOnlyUsage: boolean) => void;
  endStream(contentType: string): void;
  /** `body`: undefined if it could not be read. */
  endBody(body: Buffer | undefined, contentType: string): void;
  discard(): void;
}
