import type { StreamEvent } from './event.ts';

/** The events of blocks. */
export type QueuedEvent = Extract<StreamEvent, { type: 'open' | 'delta' | 'opaque' | 'citation' | 'close' }>;

interface QueuedBlock {
  readonly events: QueuedEvent[];
  isClosed: boolean;
}

/**
 * Puts the events of blocks that interleave in the order of dialects with one open block at a time. What waits is part of one
 * answer, whose size the vendor's limit of output tokens bounds.
 */
export class BlockQueue {
  readonly #waiting = new Map<number, QueuedBlock>();
  #heldBytes = 0;
  #current: number | undefined;

  /** Of what waits. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The events that may go out now. */
  push(event: QueuedEvent): readonly QueuedEvent[] {
    if (event.type === 'open') {
      if (this.#current === undefined) {
        this.#current = event.at;
        return [event];
      }
      this.#waiting.set(event.at, { events: [event], isClosed: false });
      this.#heldBytes += sizeOf(event);
      return NONE;
    }
    if (event.at !== this.#current) {
      const block = this.#waiting.get(event.at);
      if (event.type === 'close' && block) block.isClosed = true;
      else if (block) {
        block.events.push(event);
        this.#heldBytes += sizeOf(event);
      }
      return NONE;
    }
    if (event.type !== 'close') return [event];
    this.#current = undefined;
    return [event, ...this.#next()];
  }

  /** What waits for a block that never closed. */
  end(): readonly QueuedEvent[] {
    const events: QueuedEvent[] = [];
    while (this.#current !== undefined) events.push(...this.push({ type: 'close', at: this.#current }));
    return events;
  }

  /** The blocks that waited, up to the first that is still open. */
  #next(): QueuedEvent[] {
    const events: QueuedEvent[] = [];
    for (const [at, block] of this.#waiting) {
      this.#waiting.delete(at);
      for (const event of block.events) {
        events.push(event);
        this.#heldBytes -= sizeOf(event);
      }
      if (!block.isClosed) {
        this.#current = at;
        break;
      }
      events.push({ type: 'close', at });
    }
    return events;
  }
}

const NONE: readonly QueuedEvent[] = [];
/** Of an event besides its text. */
const EVENT_BYTES = 100;

function sizeOf(event: QueuedEvent): number {
  if (event.type === 'delta') return EVENT_BYTES + Buffer.byteLength(event.text);
  if (event.type === 'citation') return EVENT_BYTES + Buffer.byteLength(JSON.stringify(event.citation));
  return EVENT_BYTES + (event.type === 'opaque' ? Buffer.byteLength(event.opaque.data) : 0);
}
