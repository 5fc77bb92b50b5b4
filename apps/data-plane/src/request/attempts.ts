import type { Caller } from '../attempt/caller.ts';
import { IntrusiveSet } from '../shared/intrusiveSet.ts';

/** The requests that were admitted and not yet settled, so that none is forgotten when the service ends. */
export class Attempts {
  readonly #callers = new IntrusiveSet<Caller>();
  #isCut = false;
  #wake: (() => void) | undefined;

  begin(caller: Caller): void {
    this.#callers.add(caller);
    if (this.#isCut) caller.cut();
  }

  /** To be called once it was settled. */
  end(caller: Caller): void {
    this.#callers.delete(caller);
    if (this.#callers.size === 0) this.#wake?.();
  }

  /**
   * Resolves once `served` did, after which none begins, and each was settled. Those that take longer than `graceMs`
   * are cut: their vendors are left, their callers are told, and what was delivered is settled.
   */
  async close(graceMs: number, served: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => {
      this.#isCut = true;
      // One that is cut may be settled at once.
      for (const caller of [...this.#callers.values()]) caller.cut();
    }, graceMs);
    await served;
    if (this.#callers.size > 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    clearTimeout(timer);
  }
}
