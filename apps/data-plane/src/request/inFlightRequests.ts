import { IntrusiveSet } from '@weighbridge/domain';
import type { ClientConnection } from '../attempt/clientConnection.ts';

/** The requests that were admitted and are not settled yet: at shutdown, none of them is forgotten. */
export class InFlightRequests {
  readonly #clients = new IntrusiveSet<ClientConnection>();
  #isAborted = false;
  #wake: (() => void) | undefined;

  begin(client: ClientConnection): void {
    this.#clients.add(client);
    if (this.#isAborted) client.abort();
  }

  /** To be called once the request is settled. */
  end(client: ClientConnection): void {
    this.#clients.delete(client);
    if (this.#clients.size === 0) this.#wake?.();
  }

  /**
   * Resolves once `served` has resolved, after which no request begins, and every request is settled. Requests that take
   * longer than `graceMs` are aborted: their clients are sent an error, and what was delivered is settled.
   */
  async close(graceMs: number, served: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => {
      this.#isAborted = true;
      // A copy: an aborted request may end at once.
      for (const client of [...this.#clients.values()]) client.abort();
    }, graceMs);
    await served;
    if (this.#clients.size > 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    clearTimeout(timer);
  }
}
