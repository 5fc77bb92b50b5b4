import type { Subscription } from './usageStream.ts';

/** The active subscriptions of a stream, so that closing the stream stops them all. */
export interface Subscriptions {
  /** `run` has to resolve, with all its work done, after the signal aborts. */
  start(run: (signal: AbortSignal) => Promise<void>): Subscription;
  stopAll(): Promise<void>;
}

export function createSubscriptions(): Subscriptions {
  const active = new Set<Subscription>();
  return {
    start(run) {
      const stopping = new AbortController();
      const running = run(stopping.signal);
      const subscription: Subscription = {
        async stop() {
          stopping.abort();
          await running;
          active.delete(subscription);
        },
      };
      active.add(subscription);
      return subscription;
    },
    async stopAll() {
      await Promise.all([...active].map((subscription) => subscription.stop()));
    },
  };
}

export interface Listeners<T extends unknown[]> {
  add(handle: (...args: T) => void): Subscription;
  /** Calls all listeners, also when one of them throws. */
  notifyAll(...args: T): void;
  /** Calls one listener, in turn. */
  notifyOne(...args: T): void;
}

export function createListeners<T extends unknown[]>(onError: (error: unknown) => void): Listeners<T> {
  const handles = new Set<(...args: T) => void>();
  const notify = (handle: (...args: T) => void, args: T): void => {
    try {
      handle(...args);
    } catch (error) {
      onError(error);
    }
  };
  return {
    add(handle) {
      // Wrapped, because the same function may be added twice.
      const added = (...args: T) => handle(...args);
      handles.add(added);
      return {
        async stop() {
          handles.delete(added);
        },
      };
    },
    notifyAll(...args) {
      for (const handle of [...handles]) notify(handle, args);
    },
    notifyOne(...args) {
      const [next] = handles;
      if (!next) return;
      handles.delete(next);
      handles.add(next);
      notify(next, args);
    },
  };
}
