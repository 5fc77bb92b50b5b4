/** What arrives one by one and is taken in batches: whatever has come by the time that somebody asks. */
export interface Gathering<T> {
  /** How many items nobody has taken yet. */
  readonly size: number;
  add(item: T): void;
  /** Resolves with at least one item, or with none once the signal aborts. Taken items are gone. */
  take(max: number, signal: AbortSignal): Promise<T[]>;
  /** Puts taken items back where they were, in front. */
  putBack(taken: readonly T[]): void;
}

export function createGathering<T>(): Gathering<T> {
  const items: T[] = [];
  let wake: () => void = () => {};
  return {
    get size() {
      return items.length;
    },
    add(item) {
      items.push(item);
      wake();
    },
    putBack(taken) {
      items.unshift(...taken);
    },
    async take(max, signal) {
      if (items.length === 0 && !signal.aborted) {
        await new Promise<void>((resolve) => {
          // The signal outlives each wait: a listener that stayed would be one more for every wait.
          const wakeUp = () => {
            signal.removeEventListener('abort', wakeUp);
            resolve();
          };
          wake = wakeUp;
          signal.addEventListener('abort', wakeUp, { once: true });
        });
      }
      return items.splice(0, max);
    },
  };
}
