import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

export interface Ticks {
  onTick(listener: () => void): void;
  stop(): Promise<void>;
}

/**
 * Ticks every `everyMs` from `from` on the clock of `performance`; both may be fractions: Node's timers have whole
 * milliseconds and fire up to one late.
 */
export function startTicks(everyMs: number, from: number): Ticks {
  const stopped = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL('../../dist/proxy/ticks.js', import.meta.url), {
    // The clock of `performance` starts with its thread.
    workerData: { everyMs, from: from + sharedNow() - performance.now(), stopped },
  });
  return {
    onTick: (listener) => worker.on('message', listener),
    async stop() {
      Atomics.store(stopped, 0, 1);
      Atomics.notify(stopped, 0);
      await worker.terminate();
    },
  };
}

/** Milliseconds on a clock that all threads share. */
function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

interface Data {
  readonly everyMs: number;
  readonly from: number;
  readonly stopped: Int32Array;
}

function tick({ everyMs, from, stopped }: Data): void {
  for (let next = 0; ; next++) {
    const waitMs = from + next * everyMs - sharedNow();
    if (waitMs > 0 && Atomics.wait(stopped, 0, 0, waitMs) !== 'timed-out') return;
    if (Atomics.load(stopped, 0) !== 0) return;
    parentPort?.postMessage(0);
  }
}

if (!isMainThread && isData(workerData)) tick(workerData);

function isData(data: unknown): data is Data {
  return typeof data === 'object' && data !== null && 'everyMs' in data && 'stopped' in data;
}
