import type { StreamEvent } from './event.ts';

/** More blocks than an answer has. */
const MAX_BLOCKS = 10_000;
const MAX_SEARCHES = 1_000;

/**
 * Makes a stream of events keep its order, whatever the vendor sends: each block opens once and closes once, nothing follows
 * the end, and there is one end.
 */
export class EventOrder {
  readonly #open = new Set<number>();
  readonly #seen = new Set<number>();
  /** Those that wait for a block to close. */
  #searches: StreamEvent[] = [];
  #searchCount = 0;
  #hasStarted = false;
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The events that may pass in place of one. */
  push(event: StreamEvent): readonly StreamEvent[] {
    if (this.#isOver) return NONE;
    switch (event.type) {
      case 'start':
        if (this.#hasStarted) return NONE;
        this.#hasStarted = true;
        return [event];
      case 'open':
        return this.#openBlock(event);
      case 'delta':
      case 'opaque':
        return this.#open.has(event.at) ? [event] : unknown(`${event.type} outside a block`);
      case 'close':
        return this.#open.delete(event.at) ? [event, ...this.#between()] : NONE;
      case 'search':
        return this.#search(event);
      case 'finish':
        return this.#end(event);
      case 'error':
        this.#isOver = true;
        return [event];
      case 'cite':
      case 'citation':
      case 'unknown':
        return [event];
    }
  }

  #openBlock(event: Extract<StreamEvent, { type: 'open' }>): readonly StreamEvent[] {
    if (this.#seen.has(event.at)) return unknown('a block that opens twice');
    if (this.#seen.size === MAX_BLOCKS) {
      this.#isOver = true;
      const message = `The answer has more than ${MAX_BLOCKS} parts.`;
      return [{ type: 'error', error: { status: 502, code: 'too_many_parts', message } }];
    }
    this.#seen.add(event.at);
    this.#open.add(event.at);
    return this.#hasStarted ? [event] : [...this.push({ type: 'start', id: '', created: undefined }), event];
  }

  #search(event: StreamEvent): readonly StreamEvent[] {
    if (++this.#searchCount > MAX_SEARCHES) return unknown('too many searches');
    this.#searches.push(event);
    const started = this.#hasStarted ? NONE : this.push({ type: 'start', id: '', created: undefined });
    return [...started, ...this.#between()];
  }

  /** What may come now if no block is open. */
  #between(): readonly StreamEvent[] {
    if (this.#open.size > 0 || this.#searches.length === 0) return NONE;
    const searches = this.#searches;
    this.#searches = [];
    return searches;
  }

  #end(event: StreamEvent): readonly StreamEvent[] {
    const events: StreamEvent[] = [];
    if (!this.#hasStarted) events.push({ type: 'start', id: '', created: undefined });
    for (const at of this.#open) events.push({ type: 'close', at });
    this.#open.clear();
    events.push(...this.#between());
    this.#isOver = true;
    events.push(event);
    return events;
  }
}

const NONE: readonly StreamEvent[] = [];

function unknown(name: string): readonly StreamEvent[] {
  return [{ type: 'unknown', name }];
}

/** What a stream that breaks off ends with. */
export const BROKEN_OFF: StreamEvent = {
  type: 'error',
  error: {
    status: 502,
    code: 'upstream_stream_cut',
    message:
      "The vendor's stream broke off before its end. What arrived is incomplete; send the request again.",
  },
};
