import type { OpenEvent } from '../ir/event.ts';
import { callId } from '../wire/ids.ts';

/**
 * Gives each call of an answer an id of its own, by which the caller says whose result it has: some vendors send none, or one for
 * several calls.
 */
export class CallIds {
  readonly #answerId: string;
  readonly #used = new Set<string>();

  constructor(answerId: string) {
    this.#answerId = answerId;
  }

  push(event: OpenEvent): OpenEvent {
    if (event.block !== 'call') return event;
    const { id } = event;
    if (id !== '' && !this.#used.has(id)) {
      this.#used.add(id);
      return event;
    }
    const own = callId(`call_${this.#answerId}_${this.#used.size}`);
    this.#used.add(own);
    return { ...event, id: own };
  }
}
