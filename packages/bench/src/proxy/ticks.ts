import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

export interface Ticks {
  onTick(listener: () => void): void;
  stop(): Promise<void>;
}

/** Ticks every `everyMs`, which may be a fraction: Node's timers have whole milliseconds and fire up to one late. */
export function startTicks(everyMs: number): Ticks {
  const stopped = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL('../../dist/proxy/ticks.js', import.meta.url), {
    workerData: { everyMs, stopped },
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

interface Data {
  readonly everyMs: number;
  readonly stopped: Int32Array;
}

function tick({ everyMs, stopped }: Data): void {
  const start = performance.now();
  for (let next = 1; ; next++) {
    const waitMs = start + next * everyMs - performance.now();
    if (waitMs > 0 && Atomics.wait(stopped, 0, 0, waitMs) !== 'timed-out') return;
    if (Atomics.load(stopped, 0) !== 0) return;
    parentPort?.postMessage(0);
  }
}

if (!isMainThread && isData(workerData)) tick(workerData);

function isData(data: unknown): data is Data {
  return typeof data === 'object' && data !== null && 'everyMs' in data && 'stopped' in data;
}
