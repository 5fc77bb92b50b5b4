/** Reasons to wake, weakest first: each also ends a sleep that waits for a weaker one. */
const REASONS = ['work', 'full', 'stop'] as const;
type Reason = (typeof REASONS)[number];

/** The sleep of one loop, which others can end early. */
export class WakeableSleep {
  #until: Reason = 'stop';
  #resolve: (() => void) | undefined;

  /** Resolves when woken for `until` or a stronger reason, and after `ms` if given. */
  async sleep({ until, ms }: { readonly until: Reason; readonly ms?: number }): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#until = until;
      this.#resolve = resolve;
      if (ms !== undefined) timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
    this.#resolve = undefined;
  }

  wake(reason: Reason): void {
    if (REASONS.indexOf(reason) >= REASONS.indexOf(this.#until)) this.#resolve?.();
  }
}
