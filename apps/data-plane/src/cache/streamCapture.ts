import { ChunkList } from '@weighbridge/dialects';
import type { Span } from '../formats/scanJson.ts';
import type { OnEvent } from '../formats/streamTap.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { MAX_CACHED_BYTES } from './cachedResponse.ts';

/** Buffers the events of a stream for the cache, unless it is too large or memory is short. */
export class StreamCapture {
  readonly #memory: HeldMemory;
  readonly #usageSpans: Span[] = [];
  readonly #events = new ChunkList();
  #isDiscarded = false;

  constructor(memory: HeldMemory) {
    this.#memory = memory;
  }

  /** Takes an event, as the vendor sent it. */
  readonly add: OnEvent = (event, hidden) => {
    if (this.#isDiscarded) return;
    const start = this.#events.length;
    const end = start + event.length;
    if (end > MAX_CACHED_BYTES || !this.#memory.tryTake(event.length, 'cache')) {
      this.discard();
      return;
    }
    for (const span of hidden) this.#usageSpans.push({ start: start + span.start, end: start + span.end });
    this.#events.add(event);
  };

  /** Returns the stream, and releases its buffer; undefined if it was not buffered whole. */
  end(): { readonly body: Buffer; readonly usageSpans: readonly Span[] } | undefined {
    const isWhole = !this.#isDiscarded;
    const body = Buffer.concat(this.#events.chunks);
    this.discard();
    return isWhole ? { body, usageSpans: this.#usageSpans } : undefined;
  }

  discard(): void {
    this.#isDiscarded = true;
    this.#memory.release(this.#events.length);
    this.#events.clear();
  }
}

/** Stores a response in the cache while it passes. One of `endStream`, `endBody` and `discard` must be called. */
export interface CacheFill {
  /** Takes an event of a stream. */
  readonly add: OnEvent;
  endStream(contentType: string): void;
  /** `body`: undefined if it could not be read. */
  endBody(body: Buffer | undefined, contentType: string): void;
  discard(): void;
}
