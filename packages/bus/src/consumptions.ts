import type { Consumption } from './usageStream.ts';

/** The readings that a stream has under way, so that it can end them all. */
export interface Consumptions {
  /** Starts one: `run` goes on until the signal aborts, and resolves when nothing of it is left. */
  start(run: (signal: AbortSignal) => Promise<void>): Consumption;
  stopAll(): Promise<void>;
}

export function createConsumptions(): Consumptions {
  const underWay = new Set<Consumption>();
  return {
    start(run) {
      const stopping = new AbortController();
      const running = run(stopping.signal);
      const consumption: Consumption = {
        async stop() {
          stopping.abort();
          await running;
          underWay.delete(consumption);
        },
      };
      underWay.add(consumption);
      return consumption;
    },
    async stopAll() {
      await Promise.all([...underWay].map((consumption) => consumption.stop()));
    },
  };
}

/** Those who want to be told of something. */
export interface Listeners<T extends unknown[]> {
  add(handle: (...told: T) => void): Consumption;
  /** Tells all; one that throws does not keep the others from it. */
  tell(...told: T): void;
  /** Tells one of them, the longest untold. */
  tellOne(...told: T): void;
}

export function createListeners<T extends unknown[]>(onError: (error: unknown) => void): Listeners<T> {
  const handles = new Set<(...told: T) => void>();
  const tell = (handle: (...told: T) => void, told: T): void => {
    try {
      handle(...told);
    } catch (error) {
      onError(error);
    }
  };
  return {
    add(handle) {
      // A function of its own: the same one may be added twice.
      const added = (...told: T) => handle(...told);
      handles.add(added);
      return {
        async stop() {
          handles.delete(added);
        },
      };
    },
    tell(...told) {
      for (const handle of [...handles]) tell(handle, told);
    },
    tellOne(...told) {
      const [next] = handles;
      if (!next) return;
      handles.delete(next);
      handles.add(next);
      tell(next, told);
    },
  };
}
