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
