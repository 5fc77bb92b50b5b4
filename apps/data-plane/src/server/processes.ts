import cluster, { type Address, type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceContext } from '@weighbridge/runtime';

export interface ProcessesDeps extends Pick<ServiceContext, 'logger' | 'onShutdown' | 'fail'> {
  /** What each process has in its environment beside ours; there are as many as these. */
  readonly environments: readonly Readonly<Record<string, string>>[];
  /** The port that they share. */
  readonly port: number;
  /** How long one may take to end. */
  readonly stopTimeoutMs: number;
}

const RESTART_MIN_MS = 250;
const RESTART_MAX_MS = 30_000;

/**
 * Runs a data plane on each of several cores: processes that share a port and nothing else, each a proxy of its own to the
 * control plane, with a spool of its own. Resolves once all of them serve. From then on, one that ends by itself is started
 * again, ever later; one that ends before that fails the start.
 */
export async function runProcesses(deps: ProcessesDeps): Promise<void> {
  const { environments, logger, onShutdown, fail } = deps;
  const running = new Set<Worker>();
  const stopping = new AbortController();
  let haveServed = false;

  async function keep(environment: Readonly<Record<string, string>>): Promise<void> {
    for (let waitMs = RESTART_MIN_MS; ; waitMs = Math.min(waitMs * 2, RESTART_MAX_MS)) {
      const worker = cluster.fork(environment);
      running.add(worker);
      worker.once('listening', () => {
        waitMs = RESTART_MIN_MS;
      });
      const [code, signal] = await once(worker, 'exit');
      running.delete(worker);
      if (stopping.signal.aborted) return;
      // What was wrong, it has told by itself.
      if (!haveServed) throw new Error(`A process ended before it served (${signal ?? `exit code ${code}`})`);
      logger.error(
        { ...environment, code, signal, waitMs },
        'a process ended by itself; another takes its place',
      );
      await sleep(waitMs, undefined, { signal: stopping.signal }).catch(() => {});
      if (stopping.signal.aborted) return;
    }
  }

  onShutdown(
    'processes',
    async () => {
      stopping.abort();
      const ends = Array.from(running, async (worker) => await once(worker, 'exit'));
      for (const worker of running) worker.process.kill('SIGTERM');
      await Promise.all(ends);
    },
    deps.stopTimeoutMs,
  );
  // Each accepts for itself. Handed out by us, a connection would be lost for good with the process that it was on its way to.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  const served = allServe(environments.length, deps.port);
  const kept = environments.map(keep);
  await Promise.race([served, Promise.all(kept)]);
  haveServed = true;
  for (const one of kept) one.catch(fail);
}

function allServe(count: number, port: number): Promise<void> {
  return new Promise((resolve) => {
    let serving = 0;
    cluster.on('listening', function heard(_worker: Worker, address: Address) {
      if (address.port === port) serving++;
      if (serving < count) return;
      cluster.off('listening', heard);
      resolve();
    });
  });
}
