import type { CallPart } from '../ir/request.ts';

/** The calls of a conversation that wait for their results, which may name them by id, or by their tool alone. */
export class UnansweredCalls {
  readonly #byId = new Map<string, CallPart>();
  readonly #byName = new Map<string, { readonly calls: CallPart[]; next: number }>();

  add(call: CallPart): void {
    this.#byId.set(call.id, call);
    const queue = this.#byName.get(call.name);
    if (queue) queue.calls.push(call);
    else this.#byName.set(call.name, { calls: [call], next: 0 });
  }

  /** The call that a result answers; of several of a tool, the first. */
  take(id: string | undefined, name: string): CallPart | undefined {
    const call = id === undefined ? this.#first(name) : this.#byId.get(id);
    if (call) this.#byId.delete(call.id);
    return call;
  }

  /** Each call is passed once. */
  #first(name: string): CallPart | undefined {
    const queue = this.#byName.get(name);
    if (!queue) return undefined;
    while (queue.next < queue.calls.length) {
      const call = queue.calls[queue.next++];
      if (call && this.#byId.get(call.id) === call) return call;
    }
    return undefined;
  }
}
