/** What ends a nap: each of these also ends those that wait for one before it. */
const REASONS = ['work', 'full', 'stop'] as const;
type Reason = (typeof REASONS)[number];

/** The waiting of one loop, which others can end early. */
export class WakeableSleep {
  #until: Reason = 'stop';
  #wake: (() => void) | undefined;

  /** Resolves when it is roused for `until` or anything above, and after `ms` where that is given. */
  async sleep({ until, ms }: { readonly until: Reason; readonly ms?: number }): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#until = until;
      this.#wake = resolve;
      if (ms !== undefined) timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
    this.#wake = undefined;
  }

  rouse(reason: Reason): void {
    if (REASONS.indexOf(reason) >= REASONS.indexOf(this.#until)) this.#wake?.();
  }
}
